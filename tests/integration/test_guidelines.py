"""Guidelines learnt by rule from what became of what an agent did through its tools."""

from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.domain.selection import Selection
from memory_sql.errors import DatabaseError
from memory_sql.memory import Memory
from memory_sql.resources.scopes import Scopes
from memory_sql.resources.work import Work
from memory_sql.tools import MemoryTools, Policy
from tests.database import rows
from tests.fakes import Scripted

ADA: dict[str, Any] = {"agent_id": "ada"}
EVENTS = (
    "SELECT actor, detail ->> 'action', detail ->> 'outcome', detail ->> 'good' FROM memory.events"
    " WHERE kind = 'action' ORDER BY event_id"
)
VERSIONS = "SELECT content, status FROM memory.v_observations WHERE scope_kind = 'guideline' ORDER BY seq"


@pytest.fixture
def settings() -> Settings:
    return Settings(llm="offline", guidelines=True)


def tools(memory: Memory, **policy: Any) -> MemoryTools:
    return MemoryTools(memory, agent_id="ada", user_id="mia", policy=Policy(**policy))


async def noted(memory: Memory, *outcomes: str, action: str = "store_note") -> None:
    for outcome in outcomes:
        await memory.work.note_action(action, outcome, **ADA)  # type: ignore[arg-type]


async def known(memory: Memory) -> None:
    await memory.observe("Mia drinks tea.", **ADA, user_id="mia")


async def test_what_became_of_a_change_is_an_event(memory: Memory) -> None:
    asked = tools(memory)
    stored = await asked.call("remember", {"text": "Mia keeps bees."})
    await asked.call("recall", {"query": "bees"})
    await asked.call("correct", {"observation_id": "o1-99", "text": "Mia keeps ducks."})
    await asked.call("forget", {"observation_ids": [stored.data["id"]]})  # a preview
    await tools(memory, changes_per_turn=0).call("remember", {"text": "Mia keeps hens."})
    assert await rows(memory, EVENTS) == [
        ("agent", "store_note", "applied", None),
        ("agent", "update_note", "failed", None),
        ("agent", "store_note", "deferred", None),
    ]


async def test_nothing_is_noted_unless_it_is_on(memory: Memory, database_url: str, llm: Scripted) -> None:
    assert not Settings(llm="offline").guidelines
    async with Memory(database_url, llm, Settings(llm="offline")) as other:
        await tools(other).call("remember", {"text": "Mia keeps bees."})
        assert (await other.work.maintain()).guidelines == 0
    assert await rows(memory, EVENTS) == []


async def test_with_fewer_than_five_nothing_is_said(memory: Memory) -> None:
    await known(memory)
    await noted(memory, *["applied"] * 4)
    learned = await memory.work.learn(**ADA)
    assert (learned.lines, learned.observation_id, learned.events) == ((), None, 4)
    assert await rows(memory, VERSIONS) == []


async def test_a_version_each_time_it_changes(memory: Memory) -> None:
    await known(memory)
    await noted(memory, *["applied"] * 6)
    first = await memory.work.learn(**ADA)
    good = "store_note: it is mostly carried out; go on as before (high)."
    assert (first.lines, first.actions, first.outcomes["applied"]) == ((good,), {"store_note": 6}, 6)
    assert (await memory.work.learn(**ADA)).observation_id is None
    await noted(memory, *["failed"] * 20)
    assert (await memory.work.maintain()).guidelines == 1
    bad = "store_note: it often fails; check first what is remembered, and use it less (medium)."
    assert await rows(memory, VERSIONS) == [(good, "superseded"), (bad, "active")]
    assert bad in str(await memory.context(**ADA, user_id="mia"))
    assert good not in str(await memory.context(**ADA, user_id="mia"))
    assert list(await memory.admin.verify()) == []


@pytest.mark.slow
async def test_what_no_longer_holds_is_said_no_more(memory: Memory) -> None:
    await known(memory)
    await noted(memory, *["failed"] * 8)
    said = (await memory.work.learn(**ADA)).observation_id
    assert "store_note" in str(await memory.context(**ADA, user_id="mia"))
    await noted(memory, *["applied"] * 8)
    assert (await memory.work.maintain()).guidelines == 1
    assert "store_note" not in str(await memory.context(**ADA, user_id="mia"))
    assert [status for _, status in await rows(memory, VERSIONS)] == ["evicted"]
    learned = await memory.work.learn(**ADA)
    assert (learned.lines, learned.ended, learned.observation_id) == ((), None, None)
    await noted(memory, *["applied"] * 8)
    again = await memory.work.learn(**ADA)
    assert again.observation_id not in (None, said)
    assert list(await memory.admin.verify()) == []


async def test_only_the_newest_events_of_that_agent_count(memory: Memory) -> None:
    await known(memory)
    await memory.observe("Ole rows.", agent_id="bob", user_id="ole")
    await noted(memory, *["failed"] * 9)
    bulk = (
        "INSERT INTO memory.events (agent_key, kind, actor, detail) SELECT agent_key, 'action', 'agent',"
        " jsonb_build_object('action', 'store_note', 'outcome', 'applied')"
        " FROM memory.agents, generate_series(1, 500) WHERE agent_id = 'ada'"
    )
    await rows(memory, bulk)
    learned = await memory.work.learn(**ADA)
    assert (learned.events, learned.outcomes["failed"]) == (500, 0)
    assert (await memory.work.learn(agent_id="bob")).events == 0


async def test_a_failure_blocks_nothing_and_is_counted(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(*_: Any, **__: Any) -> None:
        raise DatabaseError("away")

    asked = tools(memory)
    with monkeypatch.context() as away:
        away.setattr(Work, "note_action", failing)
        answer = await asked.call("remember", {"text": "Mia keeps bees."})
    assert (answer.is_error, asked.unnoted) == (False, 1)
    await noted(memory, *["applied"] * 6)
    monkeypatch.setattr("memory_sql.resources.learning.Learning.learn", failing)
    done = await memory.work.maintain()
    assert (done.guidelines, done.unlearned, done.complete) == (0, 1, True)


async def test_it_asks_no_model(memory: Memory, llm: Scripted) -> None:
    await known(memory)
    await noted(memory, *["denied"] * 6, action="discard")
    await noted(memory, *["applied"] * 6)
    await memory.work.maintain()
    assert llm.requests == []


async def test_an_agent_that_is_erased_takes_them_along(memory: Memory) -> None:
    await known(memory)
    await noted(memory, *["applied"] * 6)
    await memory.work.learn(**ADA)
    seen = await memory.forget(Selection(everything=True), **ADA, dry_run=True)
    done = await memory.forget(Selection(everything=True), **ADA, if_fingerprint=seen.fingerprint)
    assert done.counts["events"] == 6
    assert await rows(memory, "SELECT count(*) FROM memory.observations") == [(0,)]
    assert (await memory.work.maintain()).guidelines == 0
    assert (await memory.work.learn(**ADA)).events == 0
    assert await rows(memory, "SELECT count(*) FROM memory.observations") == [(0,)]


@pytest.mark.parametrize("meanwhile", ["forget", "note"])
async def test_what_it_was_learnt_from_is_looked_at_again_where_it_is_stored(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    await known(memory)
    await noted(memory, *["applied"] * 6)
    create = Scopes.create

    async def changed_first(self: Scopes, *given: Any, **named: Any) -> Any:
        monkeypatch.setattr(Scopes, "create", create)
        if meanwhile == "forget":
            await memory.forget(Selection(everything=True), **ADA)
        else:
            await noted(memory, *["failed"] * 9)
        return await self.create(*given, **named)

    monkeypatch.setattr(Scopes, "create", changed_first)
    learned = await memory.work.learn(**ADA)
    said = [text for (text, _) in await rows(memory, VERSIONS)]
    assert said == ([] if meanwhile == "forget" else ["\n".join(learned.lines)])
    assert learned.events == (0 if meanwhile == "forget" else 15)
    assert (await memory.work.learn(**ADA)).observation_id is None
