"""Forgotten while a hold keeps it: out of use at once, kept until the last hold ends, then erased automatically."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import aclosing
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.domain.results import Receipt
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError, NotFoundError
from memory_sql.memory import Memory
from tests.conftest import administer
from tests.database import rows
from tests.fakes import Parrot
from tests.integration.test_corrections import spread
from tests.integration.test_forgetting import aclosing_of, copy_of, origin, say, tell
from tests.sizes import few_in_every_run

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
JONAS: dict[str, Any] = {**ADA, "user_id": "jonas"}
GROUP: dict[str, Any] = {"group_ids": ["crew"]}
RUBY = "We hide the ruby."


@pytest.fixture
def parrot() -> Parrot:
    return Parrot()


@pytest.fixture
async def memory(database_url: str, parrot: Parrot) -> AsyncIterator[Memory]:
    settings = Settings(llm="offline", consolidation_threshold=2, shared_conversations=True, collective="direct")
    async with Memory(database_url, parrot, settings) as opened:
        yield opened
        await stands(opened)


async def stands(memory: Memory) -> None:
    assert list(await memory.admin.verify()) == []


async def members(memory: Memory, *users: str) -> None:
    await memory.groups.create("crew", **ADA)
    for user in users:
        await memory.groups.add_member("crew", user, **ADA)


async def crew(memory: Memory) -> None:
    """What Mia said to the crew, of which the ruby is to go, what Jonas did, and the texts of all."""
    await members(memory, "mia", "jonas")
    await say(memory, RUBY, session="s", **GROUP)
    await say(memory, "I sail a sloop.", "We meet at noon.", user="jonas", session="t", **GROUP)
    await tell(memory)


async def ruby(memory: Memory) -> str:
    """The id of the observation."""
    found = "SELECT format('o%s-%s', scope_id, seq) FROM memory.observations WHERE content = :content"
    ((observation_id,),) = await rows(memory, found, content=RUBY)
    return str(observation_id)


async def told(memory: Memory) -> str:
    """All that anybody is told, and what models are shown."""
    parts: list[Any] = []
    for user in (MIA, JONAS):
        parts += [
            await memory.context(**user, message="Where is the ruby?", retrieve=True),
            await memory.digest(**user, query="ruby"),
        ]
        found = await memory.search("ruby", **user, messages=5)
        parts += [hit.observation.content for hit in found.results]
        parts += [hit.message.content for hit in found.messages]
        parts += [one.content for one in await memory.observations.list(**user)]
        parts += [one.content for one in await memory.conversations.messages(**user)]
        parts += await memory.scopes.list(**user)
        async with aclosing(memory.people.export(**user)) as lines:
            parts += [line async for line in lines]
    parts += await rows(memory, "SELECT content FROM memory.consolidations")
    shared = "SELECT h.content FROM memory.scopes s, memory.shareable(s.agent_key, s.scope_id, '{}') h"
    parts += await rows(memory, shared)
    parts += await rows(memory, "SELECT answer::text, seen::text FROM memory.runs")
    return "\n".join(map(str, parts)).casefold()


async def kept(memory: Memory) -> tuple[int, int]:
    """In how many observations and messages the ruby is still."""
    observations = await rows(memory, "SELECT count(*) FROM memory.observations WHERE content LIKE '%ruby%'")
    messages = await rows(memory, "SELECT count(*) FROM memory.messages WHERE content LIKE '%ruby%'")
    return observations[0][0], messages[0][0]


async def receipts(memory: Memory) -> list[dict[str, Any]]:
    found = await rows(memory, "SELECT detail FROM memory.events WHERE kind = 'forget' ORDER BY event_id")
    return [detail for (detail,) in found]


async def hold(memory: Memory, kind: str) -> int:
    targets: dict[str, Any] = {"user": "mia", "conversation": "s", "group": "crew", "observation": await ruby(memory)}
    return (await memory.holds.place(**ADA, **{f"{kind}_id": targets[kind]})).hold_id


KINDS = ("user", "conversation", "group", "observation")
SELECTIONS: dict[str, dict[str, Any]] = {
    "user": {"user_id": "mia"},
    "conversation": {"conversation_id": "s"},
    "group": {"group_id": "crew"},
    "message": {"conversation_id": "s", "message_id": "m1"},
    "query": {"query": "ruby"},
    "observation": {},
}


async def selected(memory: Memory, what: str) -> Selection:
    return Selection(**SELECTIONS[what]) if SELECTIONS[what] else Selection(observation_id=await ruby(memory))


@pytest.mark.parametrize("kind", KINDS)
async def test_hold_alone_changes_nothing_in_use(memory: Memory, kind: str) -> None:
    await crew(memory)
    before = [
        await memory.context(**MIA, message="Where is the ruby?", retrieve=True),
        await memory.digest(**MIA, query="ruby"),
    ]
    found = await memory.search("ruby", **MIA, messages=5)
    await hold(memory, kind)
    after = [
        await memory.context(**MIA, message="Where is the ruby?", retrieve=True),
        await memory.digest(**MIA, query="ruby"),
    ]
    assert [str(one) for one in after] == [str(one) for one in before]
    assert (await memory.search("ruby", **MIA, messages=5)).results == found.results
    assert "ruby" in str(before[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "kind"),
    few_in_every_run(
        [*product(SELECTIONS, KINDS)],
        [
            ("user", "observation"),
            ("conversation", "user"),
            ("group", "group"),
            ("message", "conversation"),
            ("query", "user"),
            ("observation", "observation"),
        ],
    ),
)
async def test_what_is_forgotten_and_held_is_out_of_use_until_the_release_takes_it(
    memory: Memory, what: str, kind: str
) -> None:
    await crew(memory)
    hold_id, selection = await hold(memory, kind), await selected(memory, what)
    planned = await memory.forget(selection, **ADA, dry_run=True)
    assert await kept(memory) == (1, 1)
    assert "ruby" in await told(memory)
    receipt = await memory.forget(selection, **ADA, actor="dpo")
    assert (planned.counts, planned.held, planned.withdrawn) == (receipt.counts, receipt.held, receipt.withdrawn)
    assert receipt.withdrawn
    assert "ruby" not in await told(memory)
    assert await kept(memory) == (1, 1)
    await stands(memory)
    await memory.run_due()
    assert "ruby" not in await told(memory)
    await stands(memory)
    await memory.holds.release(hold_id, **ADA, actor="desk")
    assert await kept(memory) == (0, 0)
    first, second = await receipts(memory)
    assert (first["withdrawn"], second["observations"]) == (list(receipt.withdrawn), list(receipt.withdrawn))
    assert second["target"] == {"waited": receipt.id}
    assert await rows(memory, "SELECT 1 FROM memory.evidence WHERE withdrawn_by IS NOT NULL") == []
    await stands(memory)
    await memory.run_due()
    await stands(memory)


async def test_hold_on_a_group_keeps_no_members_own_observation_in_use(memory: Memory) -> None:
    """What she says of herself isn't the group's: it goes at once, though its message is held with the conversation."""
    await members(memory, "mia")
    await say(memory, "I hide my ruby.", session="s", **GROUP)
    hold_id = (await memory.holds.place(**ADA, group_id="crew")).hold_id
    receipt = await memory.forget(Selection(user_id="mia"), **ADA)
    assert (receipt.counts["observations"], receipt.held) == (1, {"observations": 0, "messages": 1})
    assert await kept(memory) == (0, 1)
    assert "ruby" not in await told(memory)
    await stands(memory)
    await memory.holds.release(hold_id, **ADA)
    assert await kept(memory) == (0, 0)


@pytest.mark.parametrize("how", ["observe", "confirm", "say"])
async def test_hold_keeps_what_was_said_after_another_had_said_it(memory: Memory, how: str) -> None:
    await members(memory, "mia", "jonas")
    await say(memory, "We meet at noon.", session="s", **GROUP)
    (said,) = await memory.observations.list(**JONAS)
    if how == "observe":
        assert (await memory.observe("We meet at noon.", **JONAS, group_id="crew")).id == said.id
    elif how == "confirm":
        await memory.observations.confirm(said.id, **JONAS)
    else:
        await say(memory, "We meet at noon.", user="jonas", session="t", **GROUP)
    held: dict[str, Any] = {"conversation_id": "t"} if how == "say" else {"user_id": "jonas"}
    hold = await memory.holds.place(**ADA, **held)
    assert hold.observations == 1
    receipt = await memory.forget(said.id, **ADA)
    assert (receipt.observations, receipt.withdrawn) == ((), (said.id,))
    await stands(memory)
    await memory.holds.release(hold.hold_id, **ADA)
    assert await rows(memory, "SELECT 1 FROM memory.observations") == []


@pytest.mark.slow
async def test_marking_withdraws_what_was_made_and_is_held(memory: Memory) -> None:
    await members(memory, "mia")
    low = await memory.observe("Mia's ruby.", **MIA)
    high = await memory.observe("Somebody's ruby.", **MIA, group_id="crew")
    higher = await memory.observe("A ruby.", **ADA, collective=True)
    await spread(memory, high, low)
    await spread(memory, higher, high)
    hold_id = (await memory.holds.place(**ADA, observation_id=high.id)).hold_id
    marked = await memory.observations.mark(low.id, **MIA, private=True)
    assert (marked.retracted, marked.withdrawn) == ((higher.id,), (high.id,))
    assert marked.observation.no_propagate
    assert "somebody" not in await told(memory)
    await stands(memory)
    await memory.holds.release(hold_id, **ADA)
    assert await rows(memory, "SELECT content FROM memory.observations") == [("Mia's ruby.",)]
    assert [one["observations"] for one in await receipts(memory)] == [[high.id]]


@pytest.mark.slow
async def test_leaving_withdraws_what_was_made_and_is_held(memory: Memory) -> None:
    await members(memory, "mia")
    mine = await memory.observe("Mia's opal.", **MIA, group_id="crew")
    high = await memory.observe("Somebody's ruby.", **ADA, collective=True)
    await spread(memory, high, mine)
    hold_id = (await memory.holds.place(**ADA, observation_id=high.id)).hold_id
    left = await memory.groups.remove_member("crew", "mia", **ADA)
    assert (left.archived, left.retracted, left.held, left.withdrawn) == ((mine.id,), (), 1, (high.id,))
    assert "ruby" not in await told(memory)
    await stands(memory)
    await memory.holds.release(hold_id, **ADA)
    assert await kept(memory) == (0, 0)
    assert len(await rows(memory, "SELECT 1 FROM memory.observations")) == 1


@pytest.mark.slow
async def test_name_of_the_forgotten_leaves_what_stays_for_others(memory: Memory) -> None:
    await crew(memory)
    await memory.observations.confirm(await ruby(memory), **JONAS)
    hold_id = (await memory.holds.place(**ADA, group_id="crew")).hold_id
    await memory.forget(Selection(user_id="mia"), **ADA)
    assert await rows(memory, "SELECT related_users, speaker FROM memory.observations WHERE content LIKE '%ruby%'") == [
        ([], None)
    ]
    assert "ruby" in str(await memory.context(**JONAS))
    evidence = "SELECT user_id FROM memory.evidence WHERE user_id = 'mia'"
    assert await rows(memory, evidence) == [("mia",)]
    await stands(memory)
    await memory.forget(Selection(user_id="jonas"), **ADA)  # then nobody says so who isn't forgotten
    assert "ruby" not in await told(memory)
    await stands(memory)
    await memory.holds.release(hold_id, **ADA)
    assert await rows(memory, evidence) == []
    assert await kept(memory) == (0, 0)


async def test_later_hold_keeps_what_is_withdrawn_until_the_last_ends(memory: Memory) -> None:
    await crew(memory)
    first = await hold(memory, "observation")
    await memory.forget(Selection(user_id="mia"), **ADA)
    second = await hold(memory, "group")
    await memory.holds.release(first, **ADA)
    assert await kept(memory) == (1, 1)
    assert "ruby" not in await told(memory)
    await stands(memory)
    await memory.holds.release(second, **ADA)
    assert await kept(memory) == (0, 0)


async def test_what_is_said_after_a_forgetting_stays_when_the_hold_ends(memory: Memory) -> None:
    await crew(memory)
    hold_id = await hold(memory, "user")
    await memory.forget(Selection(user_id="mia"), **ADA)
    await memory.groups.add_member("crew", "mia", **ADA)
    await memory.people.merge(**ADA, user_id="visitor", into_user_id="mia")
    await say(memory, RUBY, session="u", **GROUP)  # the very same is new
    await memory.holds.release(hold_id, **ADA)
    assert await kept(memory) == (1, 1)
    assert "ruby" in str(await memory.context(**MIA))
    assert len(await memory.people.aliases(**MIA)) == 1
    assert [one.user_id for one in await memory.groups.members("crew", **ADA)] == ["jonas", "mia"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["nothing", "unmerge", "merge", "rename", "rename group", "rename conversation"])
async def test_who_is_who_changes_nothing_for_what_waits(memory: Memory, how: str) -> None:
    await memory.people.merge(**ADA, user_id="visitor", into_user_id="mia")
    await members(memory, "jonas")
    await say(memory, RUBY, user="visitor", session="s", **GROUP)
    await tell(memory)
    hold_id = (await memory.holds.place(**MIA)).hold_id
    if how == "unmerge":
        await memory.people.unmerge(**ADA, user_id="visitor")
    receipt = await memory.forget(Selection(user_id="visitor" if how == "unmerge" else "mia"), **ADA)
    assert receipt.held == {"observations": 1, "messages": 1}
    if how == "merge":
        await memory.people.merge(**ADA, user_id="mia", into_user_id="jonas")
        await memory.people.merge(**ADA, user_id="visitor", into_user_id="jonas")
    if how.startswith("rename"):
        kind = how.partition(" ")[2] or "user"
        old = {"user": "visitor", "group": "crew", "conversation": "s"}[kind]
        await memory.people.rename(**ADA, kind=kind, old=old, new="other")  # type: ignore[arg-type]
    assert await memory.people.aliases(**MIA) == []
    assert "ruby" not in await told(memory)
    assert await kept(memory) == (1, 1)
    await stands(memory)
    await memory.holds.release(hold_id, **ADA)
    assert await kept(memory) == (0, 0)
    assert await rows(memory, "SELECT 1 FROM memory.user_aliases WHERE withdrawn_by IS NOT NULL") == []


@pytest.mark.slow
async def test_nobody_brings_back_what_is_withdrawn(memory: Memory) -> None:
    await crew(memory)
    observation_id, hold_id = await ruby(memory), await hold(memory, "observation")
    old = await memory.observe("The ruby is red.", **JONAS, group_id="crew", fact_key="ruby")
    await memory.forget(Selection(user_id="mia"), **ADA)
    observations = memory.observations
    for act in (
        lambda: observations.get(observation_id, **JONAS),
        lambda: observations.confirm(observation_id, **JONAS),
        lambda: observations.dispute(observation_id, **JONAS),
        lambda: observations.update(observation_id, **JONAS, text="We hide no ruby."),
        lambda: observations.mark(observation_id, **JONAS, private=True),
        lambda: observations.quarantine(observation_id, **JONAS),
        lambda: observations.unquarantine(observation_id, **ADA),
        lambda: observations.reinstate(observation_id, **JONAS),
    ):
        with pytest.raises((NotFoundError, InputError)):
            await act()
    done = await observations.quarantine(Selection(query="ruby"), **ADA)
    assert done.observations == (old.id,)
    await observations.unquarantine(Selection(query="ruby"), **ADA)
    again = await memory.forget(observation_id, **ADA)  # which asks for what waits
    assert again.withdrawn == (observation_id,)
    statuses = await rows(
        memory,
        "SELECT status FROM memory.observation_states WHERE format('o%s-%s', scope_id, seq) = :id",
        id=observation_id,
    )
    assert statuses == [("withdrawn",)]
    await memory.groups.remove_member("crew", "jonas", **ADA)
    await stands(memory)
    await memory.holds.release(hold_id, **ADA)
    with pytest.raises(NotFoundError):
        await memory.forget(observation_id, **ADA)


async def test_past_moment_doesnt_show_what_is_withdrawn(memory: Memory) -> None:
    await crew(memory)
    await say(memory, "We polish the ruby.", session="v", **GROUP)
    then = memory.now()
    await hold(memory, "user")
    assert "ruby" in str(await memory.context(**JONAS, as_of=then))
    await memory.forget(Selection(user_id="mia"), **ADA)
    assert "ruby" not in str(await memory.context(**JONAS, message="ruby?", retrieve=True, as_of=then))
    assert (await memory.search("ruby", **JONAS, as_of=then)).results == ()
    assert "ruby" not in str(await memory.observations.list(**JONAS, as_of=then))


async def test_what_a_withdrawn_one_superseded_is_active_again(memory: Memory) -> None:
    old = await memory.observe("Mia lives in Rome.", **MIA, fact_key="home")
    new = await memory.observe("Mia lives in Oslo.", **MIA, fact_key="home")
    hold_id = (await memory.holds.place(**ADA, observation_id=new.id)).hold_id
    receipt = await memory.forget(new.id, **ADA)
    assert receipt.withdrawn == (new.id,)
    assert [one.id for one in await memory.observations.list(**MIA)] == [old.id]
    await stands(memory)
    await memory.holds.release(hold_id, **ADA)
    assert [one.id for one in await memory.observations.list(**MIA)] == [old.id]


async def test_release_waits_for_a_forgetting_under_way_and_takes_its_rest(memory: Memory) -> None:
    await crew(memory)
    hold_id = await hold(memory, "user")
    async with memory.database.transaction(principal=None) as host:
        await memory.forget(Selection(user_id="mia"), **ADA, session=host)
        releasing = asyncio.ensure_future(memory.holds.release(hold_id, **ADA))
        while not await rows(memory, "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
            pass
        await host.commit()
    await releasing
    assert await kept(memory) == (0, 0)


@pytest.mark.slow
async def test_restored_backup_withdraws_again_and_the_journal_tells_the_end(
    memory: Memory, tmp_path: Path, server_url: str, parrot: Parrot
) -> None:
    await crew(memory)
    hold_id = await hold(memory, "user")
    backup = f"withdrawn_{os.getpid()}"
    url = await copy_of(memory, server_url, backup)
    file = tmp_path / "forgotten.jsonl"
    settings = memory.settings.model_copy(update={"forget_journal": file})
    async with Memory(str_url(memory), parrot, settings) as journaled:
        await journaled.forget(Selection(user_id="mia"), **ADA)
        await journaled.holds.release(hold_id, **ADA)
        assert await journaled.admin.restore_check(file) == []
    assert file.read_text().count('"done": true') == 2
    assert "ruby" not in file.read_text()
    try:
        restored = await Memory(url, parrot, settings).open(restoring=True)
        async with aclosing_of(restored):
            done: list[Receipt] = await restored.admin.restore_check(file, incarnation=await origin(restored, file))
            assert [len(receipt.withdrawn) for receipt in done] == [1, 0]
            assert "ruby" not in await told(restored)
            assert await kept(restored) == (1, 1)
            await stands(restored)
            await restored.holds.release(hold_id, **ADA)
            assert await kept(restored) == (0, 0)
    finally:
        await administer(server_url, f"DROP DATABASE {backup} WITH (FORCE)")


def str_url(memory: Memory) -> str:
    return memory.database.url.render_as_string(hide_password=False)


@pytest.mark.parametrize("kind", ["user", "conversation", "group", "observation", "made"])
async def test_each_is_held_that_is_among_all_that_are(memory: Memory, kind: str) -> None:
    """Also what something held was made of (`made`), and the messages behind it."""
    await crew(memory)
    sources = await memory.observations.list(**JONAS)
    await spread(memory, await memory.observe("They sail.", **MIA), *sources)
    await say(memory, "I row.", user="zoe", session="z")
    if kind == "made":
        ((made,),) = await rows(memory, "SELECT format('o%s-%s', scope_id, seq) FROM memory.lineage LIMIT 1")
        await memory.holds.place(**ADA, observation_id=made)
    else:
        await hold(memory, kind)
    each = {
        "observations": "SELECT scope_id, seq FROM memory.observations"
        " WHERE memory.is_held_observation(agent_key, scope_id, seq)",
        "messages": "SELECT conversation_id, number FROM memory.messages"
        " WHERE memory.is_held_message(agent_key, conversation_id, number)",
    }
    for what, sql in each.items():
        found = set(await rows(memory, sql))
        assert found == set(await rows(memory, f"SELECT h.* FROM memory.agents, memory.held_{what}(agent_key) h"))  # noqa: S608
        assert found
        assert len(found) < (await rows(memory, f"SELECT count(*) FROM memory.{what}"))[0][0]  # noqa: S608
    await rows(memory, "DELETE FROM memory.lineage")  # which nobody has judged
