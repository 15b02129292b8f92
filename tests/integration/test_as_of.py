"""What was known at a past moment."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError
from memory_sql.memory import Memory
from tests.commands import memory_sql
from tests.database import rows
from tests.fakes import Parrot

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


class Diary:
    """A clock that stands still, and what a user was shown at each moment that was looked at."""

    def __init__(self) -> None:
        self.now = START
        self.seen: dict[datetime, tuple[Any, ...]] = {}

    def __call__(self) -> datetime:
        return self.now

    async def turn(self, memory: Memory) -> datetime:
        """Keeps what is known now, and lets an hour pass."""
        moment = self.now
        self.seen[moment] = await shown(memory)
        self.now += timedelta(hours=1)
        return moment


async def shown(memory: Memory, **at: Any) -> tuple[Any, ...]:
    context = await memory.context(**MIA, message="tea coffee rum", retrieve=True, **at)
    found = await memory.search("tea coffee rum", **MIA, **at)
    listed = await memory.observations.list(**MIA, **at)
    history = await memory.scopes.history(**MIA, **at)
    digests = [await memory.digest(**MIA, query=query, **at) for query in (None, "tea coffee rum")]
    return (
        [(part.element, part.sources) for part in context.parts],
        {(hit.observation.id, hit.observation.status, hit.observation.pending) for hit in found.results},
        {(o.id, o.status, o.pending) for o in listed},
        [(v.version, v.live, v.content) for v in history],
        [str(digest) for digest in digests],
    )


@pytest.fixture
def diary() -> Diary:
    return Diary()


@pytest.fixture
async def memory(database_url: str, diary: Diary) -> AsyncIterator[Memory]:
    async with Memory(database_url, Parrot(), Settings(llm="offline"), clock=diary) as opened:
        yield opened


@pytest.mark.slow
async def test_past_is_shown_as_it_was(memory: Memory, diary: Diary) -> None:
    """Promise 6: through observations, texts, undoing, giving way and passing over."""
    await diary.turn(memory)
    tea = await memory.observe("tea", **MIA)
    scope_id = tea.scope.key
    await diary.turn(memory)
    await memory.scopes.consolidate(**ADA, scope_id=f"s{scope_id}")
    await diary.turn(memory)
    await memory.observe("coffee", **MIA)
    await diary.turn(memory)
    await memory.scopes.consolidate(**ADA, scope_id=f"s{scope_id}")
    await diary.turn(memory)
    await memory.scopes.undo(**ADA, scope_id=f"s{scope_id}")
    await diary.turn(memory)
    await memory.scopes.undo(**ADA, scope_id=f"s{scope_id}")
    await diary.turn(memory)
    await memory.observe("rum", **MIA)
    await memory.scopes.consolidate(**ADA, scope_id=f"s{scope_id}")
    await diary.turn(memory)
    await memory.observe("water", **ADA, collective=True)
    await diary.turn(memory)
    gin = await memory.observe("tea and gin", **MIA)
    ale = await memory.observe("coffee and ale", **MIA)
    await diary.turn(memory)
    await memory.observations.quarantine(gin.id, **MIA)
    await diary.turn(memory)
    await memory.scopes.consolidate(**ADA, scope_id=f"s{scope_id}")  # passes over what is set aside
    await diary.turn(memory)
    await memory.observations.unquarantine(gin.id, **MIA)
    await diary.turn(memory)
    await memory.scopes.consolidate(**ADA, scope_id=f"s{scope_id}")  # which is an extra of this one
    await diary.turn(memory)
    await memory.observations.update(ale.id, **MIA, text="coffee and stout")
    await diary.turn(memory)
    for moment, then in diary.seen.items():
        assert await shown(memory, as_of=moment) == then, moment


async def test_status_of_then(memory: Memory, diary: Diary) -> None:
    """By events: an observation that has given way since counted then."""
    tea = await memory.observe("tea", **MIA)
    before = await diary.turn(memory)
    await rows(
        memory,
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status, status_at)"
        " SELECT agent_key, scope_id, 1, 'archived', :at FROM memory.scopes",
        at=diary.now,
    )
    await rows(
        memory,
        "INSERT INTO memory.events (agent_key, scope_id, seq, kind, detail, created_at)"
        """ SELECT agent_key, scope_id, 1, 'status', '{"from": "active", "to": "archived"}', :at FROM memory.scopes""",
        at=diary.now,
    )
    after = await diary.turn(memory)
    assert [(o.id, o.pending) for o in await memory.observations.list(**MIA, as_of=before)] == [(tea.id, True)]
    assert await memory.observations.list(**MIA, as_of=after) == []
    (hit,) = (await memory.search("tea", **MIA, as_of=after)).results
    assert hit.observation.status == "archived"
    assert "tea" not in str(await memory.context(**MIA, as_of=after))


async def test_member_of_today_does_not_see_what_was_before_they_joined_by_asking_about_the_past(
    memory: Memory, diary: Diary
) -> None:
    await memory.observe("tea", **ADA, group_id="crew")
    early = await diary.turn(memory)
    await memory.add([{"role": "user", "content": "Ahoy"}], **MIA, conversation_id="s", group_ids=["crew"])
    assert "tea" in str(await memory.context(**MIA))
    assert "tea" not in str(await memory.context(**MIA, as_of=early))


async def test_what_was_forgotten_was_never_known(memory: Memory, diary: Diary) -> None:
    await memory.observe("tea", **MIA)
    tea = await memory.observe("rum", **MIA, tags=["rum"])
    await memory.scopes.consolidate(**ADA, scope_id=tea.scope.id)
    moment = await diary.turn(memory)
    await memory.forget(Selection(tag="rum"), **ADA)
    xml = str(await memory.context(**MIA, as_of=moment))
    assert "rum" not in xml
    assert "tea" in xml
    assert [v.content for v in await memory.scopes.history(**MIA, as_of=moment)] == []


async def test_diff_between_moments(memory: Memory, diary: Diary) -> None:
    tea = await memory.observe("Tea.", **MIA)
    none = await diary.turn(memory)
    await memory.scopes.consolidate(**ADA, scope_id=tea.scope.id)
    one = await diary.turn(memory)
    await memory.observe("Rum.", **MIA)
    await memory.scopes.consolidate(**ADA, scope_id=tea.scope.id)
    two = await diary.turn(memory)
    both = await memory.scopes.diff(**MIA, scope_id=tea.scope.id, from_version=none, to_version=two)
    assert (both.from_version, both.to_version) == (0, 2)
    last = await memory.scopes.diff(**MIA, scope_id=tea.scope.id, from_version=one)
    assert [(s.change, s.text) for s in last.sentences] == [("kept", "Tea."), ("added", "Rum.")]


async def test_naive_moment_is_refused(memory: Memory) -> None:
    with pytest.raises(InputError):
        await memory.context(**MIA, as_of=datetime(2026, 3, 2))  # noqa: DTZ001


@pytest.mark.slow
def test_as_of_on_the_command_line(database_url: str) -> None:
    to = ("--agent", "ada", "--user", "mia", "--url", database_url)
    kept = memory_sql("observe", "Tea.", *to, "--json").value
    assert memory_sql("observation", "list", *to, "--as-of", "2020-01-01T00:00:00Z", "--json").rows == []
    assert len(memory_sql("observation", "list", *to, "--as-of", kept["created_at"], "--json").rows) == 1
    assert memory_sql("search", "tea", *to, "--as-of", "2020-01-01T00:00:00Z", "--json").rows == []
    assert "Tea" not in memory_sql("context", *to, "--as-of", "2020-01-01T00:00:00Z").out
    assert "ISO 8601" in memory_sql("scope", "history", *to, "--as-of", "yesterday", code=1).err
