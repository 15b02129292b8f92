"""Rules 1–6, 8, 9 and 11 of the watermark, each on several connections at once.

Two processes share a database: `memory` and `other`, each with its own connections and model. One acts while the other's
model thinks, or both wait for a lock that the test holds: the order is fixed, never left to chance.
`tests/prove/mutations.py` removes each rule and expects a test here to fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text as sql

from memory_sql.config import Settings
from memory_sql.consolidation import consolidation
from memory_sql.consolidation.task import ConsolidationTask
from memory_sql.db import Session
from memory_sql.db.repositories.scopes import ScopeRepository
from memory_sql.domain.selection import Selection
from memory_sql.errors import DatabaseError, NotFoundError, StaleError
from memory_sql.formation import formation
from memory_sql.llm import Request
from memory_sql.memory import Memory
from tests.database import TOLD, rows, serving
from tests.factories import MONDAY, conversation, message
from tests.fakes import HOPELESS, Reply, Scripted, extracted
from tests.forming import loading
from tests.prove.models import text_of

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
HERE: dict[str, Any] = {**MIA, "conversation_id": "s"}
SESSION: dict[str, Any] = {"agent_id": "ada", "conversation_id": "s"}
SECONDS = 30.0  # until a test gives up waiting
FAR = MONDAY.replace(year=9000)
LEASES_END = "UPDATE memory.{} SET lease_until = now() - interval '1 second' WHERE lease_until IS NOT NULL"


@pytest.fixture
def settings() -> Settings:
    return Settings(llm="offline", consolidation_threshold=2, max_errors=1)


@pytest.fixture
def other_llm() -> Scripted:
    return Scripted()


@pytest.fixture
async def other(database_url: str, other_llm: Scripted, settings: Settings) -> AsyncIterator[Memory]:
    async with Memory(database_url, other_llm, settings) as opened:
        yield opened


def copied(request: Request[Any]) -> str:
    """A text with a line for each fact, so that lines can be counted."""
    task = request.material
    assert isinstance(task, ConsolidationTask)
    return text_of(task.current, (item.text for item in task.observations))


def slowly(answer: str, asked: asyncio.Event, go: asyncio.Event) -> Reply:
    """Says when it is asked, and answers when it may."""

    async def reply(_: Request[Any]) -> str:
        asked.set()
        await go.wait()
        return answer

    return reply


async def remember(memory: Memory, *texts: str) -> int:
    """The id of Mia's scope, which now holds these."""
    for text in texts:
        observation = await memory.observe(text, **MIA)
    return observation.scope.key


async def set_status(memory: Memory, content: str, status: str) -> None:
    """As whatever changes a status does it: under the scope's lock, and due said anew."""
    async with serving(memory) as unit:
        await set_status_in(unit, content, status, memory.settings.consolidation_threshold)


async def set_status_in(unit: Session, content: str, status: str, threshold: int) -> None:
    await unit.execute(sql("SELECT FROM memory.scopes FOR NO KEY UPDATE"))
    await unit.execute(
        sql(
            "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status)"
            " SELECT agent_key, scope_id, seq, :status FROM memory.observations WHERE content = :content"
            " ON CONFLICT (agent_key, scope_id, seq) DO UPDATE SET status = :status"
        ),
        {"content": content, "status": status},
    )
    await unit.execute(
        sql(
            "SELECT memory.refresh_due(agent_key, array_agg(scope_id), :threshold, now())"
            " FROM memory.scopes GROUP BY agent_key"
        ),
        {"threshold": threshold},
    )


async def set_aside(memory: Memory, llm: Scripted, answer: Reply = "") -> int:
    """A worker tries the first that waits by itself and gives it up; the run that says so. The lease is taken first."""
    first_alone = "UPDATE memory.scopes SET suspects = 1, due_at = now() - interval '1 second', lease_until = NULL"
    await rows(memory, first_alone)
    claimed = await memory.work.claim("consolidation", by=FAR)
    assert claimed is not None
    llm.then(answer)
    assert (await claimed()).failed
    (dead,) = await memory.work.dead()
    return dead.run_id


@asynccontextmanager
async def locked(memory: Memory, table: str = "scopes") -> AsyncIterator[Session]:
    """A third connection that holds the rows of the table until the end."""
    async with serving(memory) as unit:
        await unit.execute(sql(f"SELECT FROM memory.{table} FOR NO KEY UPDATE"))
        yield unit


async def are_waiting(memory: Memory, count: int) -> None:
    """Until so many connections wait for a lock; asks again and again, since nobody tells."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    async with asyncio.timeout(SECONDS):
        while True:
            if (await rows(memory, waiting))[0][0] >= count:
                return
            await asyncio.sleep(0.01)


async def in_turn(memory: Memory, *calls: Awaitable[Any]) -> list[asyncio.Future[Any]]:
    """The calls, begun one after another, each once the one before waits for a lock: they get it in this order."""
    begun: list[asyncio.Future[Any]] = []
    for call in calls:
        begun.append(asyncio.ensure_future(call))
        await are_waiting(memory, len(begun))
    return begun


async def ended(*begun: asyncio.Future[Any]) -> list[Any]:
    async with asyncio.timeout(SECONDS):
        return await asyncio.gather(*begun)


async def told(memory: Memory) -> list[str]:
    ((text,),) = await rows(memory, f"SELECT content FROM {TOLD}")  # noqa: S608
    return (text or "").splitlines()


async def pending(memory: Memory) -> list[str]:
    return sorted(o.content for o in await memory.observations.list(**MIA) if o.pending)


async def is_due(memory: Memory) -> bool:
    ((due,),) = await rows(memory, "SELECT due_at IS NOT NULL FROM memory.scopes")
    return bool(due)


async def ranges(memory: Memory) -> list[tuple[Any, ...]]:
    """Of the versions that stand, oldest first."""
    return await rows(
        memory,
        "SELECT version, from_seq, to_seq, extra_seqs FROM memory.consolidations WHERE live ORDER BY version",
    )


PLACES = """
    SELECT o.seq,
           (o.seq > s.done_seq)::int
           + (o.seq <= s.done_seq AND coalesce(t.repend, false))::int
           + (SELECT count(*) FROM memory.consolidations c
              WHERE c.agent_key = o.agent_key AND c.scope_id = o.scope_id AND c.live
                AND CASE WHEN EXISTS (SELECT FROM memory.consolidations e WHERE e.agent_key = o.agent_key
                                      AND e.scope_id = o.scope_id AND e.live AND o.seq = ANY (e.extra_seqs))
                    THEN o.seq = ANY (c.extra_seqs)
                    ELSE o.seq > c.from_seq AND o.seq <= c.to_seq AND NOT coalesce(t.repend, false) END) AS places
    FROM memory.observations o
    JOIN memory.scopes s USING (agent_key, scope_id)
    LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq)
    ORDER BY o.seq
"""


async def each_row_is_in_one_place(memory: Memory) -> None:
    places = await rows(memory, PLACES)
    assert [count for _, count in places] == [1] * len(places), places


# Rule 1: each row is in one place


@pytest.mark.slow
async def test_rule_1_each_row_waits_or_is_told_once_whatever_happens_while_a_text_is_written(
    memory: Memory, other: Memory, llm: Scripted, other_llm: Scripted
) -> None:
    scope_id = await remember(memory, "one", "two", "three", "four")
    await set_status(other, "three", "archived")

    async def meanwhile(request: Request[Any]) -> str:
        await set_status(other, "two", "archived")  # was read
        await set_status(other, "three", "active")  # was not
        await remember(other, "five")
        return copied(request)

    llm.then(meanwhile, copied)
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await each_row_is_in_one_place(other)
    await set_status(other, "two", "active")
    assert await pending(other) == []
    await remember(other, "six")
    other_llm.then(copied)
    await other.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await each_row_is_in_one_place(memory)
    assert sorted(await told(memory)) == sorted(["one", "two", "three", "four", "five", "six"])


# Rule 2: a version ends at the last row that was read


async def test_rule_2_version_ends_at_what_was_read_and_the_rest_waits(
    memory: Memory, other: Memory, llm: Scripted
) -> None:
    scope_id = await remember(memory, "one", "two")
    seen: list[list[str]] = []

    async def meanwhile(request: Request[Any]) -> str:
        await remember(other, "three")
        return copied(request)

    async def look(request: Request[Any]) -> str:
        seen.append(await told(other))
        assert await ranges(other) == [(1, 0, 2, [])]
        assert await pending(other) == ["three"]
        return copied(request)

    llm.then(meanwhile, look)
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert seen == [["one", "two"]]
    assert await ranges(memory) == [(1, 0, 2, []), (2, 2, 3, [])]


async def test_rule_2_watermark_stays_where_nothing_can_be_read_and_the_next_version_spans_the_gap(
    memory: Memory, other: Memory, llm: Scripted
) -> None:
    scope_id = await remember(memory, "one", "two")
    async with locked(memory) as unit:
        (call,) = await in_turn(memory, other.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}"))
        for content in ("one", "two"):
            await set_status_in(unit, content, "archived", 2)
    assert (await ended(call))[0].version is None
    assert await rows(memory, "SELECT done_seq, version, due_at FROM memory.scopes") == [(0, 0, None)]
    await remember(other, "three")
    llm.then(copied)
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert await ranges(memory) == [(1, 0, 3, [])]
    await each_row_is_in_one_place(memory)


async def test_rule_2_database_refuses_a_second_version_that_begins_at_the_same_row(
    memory: Memory, other: Memory
) -> None:
    await remember(memory, "one")
    version = (
        "INSERT INTO memory.consolidations (agent_key, scope_id, version, base, from_seq, to_seq, content, words, reason)"
        " SELECT agent_key, scope_id, {}, 0, 0, 1, 'one', 1, 'asked' FROM memory.scopes"
    )
    async with serving(memory) as unit:
        await unit.execute(sql(version.format(1)))
        (second,) = await in_turn(memory, rows(other, version.format(2)))
    with pytest.raises(DatabaseError, match="consolidations_from_seq_key"):
        await ended(second)


# Rule 3: what a version passed over is marked by its commit alone


async def test_rule_3_row_that_came_back_while_the_text_was_written_waits_for_the_next(
    memory: Memory, other: Memory, llm: Scripted
) -> None:
    scope_id = await remember(memory, "one", "two", "three")
    await set_status(other, "two", "archived")

    async def meanwhile(request: Request[Any]) -> str:
        await set_status(other, "two", "active")
        assert await rows(other, "SELECT repend FROM memory.observation_states") == [(False,)]
        return copied(request)

    async def look(request: Request[Any]) -> str:
        assert await pending(other) == ["two"]
        return copied(request)

    llm.then(meanwhile, look)
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert await told(other) == ["one", "three", "two"]
    assert await ranges(other) == [(1, 0, 3, []), (2, 3, 3, [2])]
    await each_row_is_in_one_place(other)


async def test_rule_3_row_that_was_set_aside_after_it_was_read_is_not_told_again(
    memory: Memory, other: Memory, llm: Scripted
) -> None:
    scope_id = await remember(memory, "one", "two")

    async def meanwhile(request: Request[Any]) -> str:
        await set_status(other, "two", "archived")
        return copied(request)

    llm.then(meanwhile)
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await set_status(other, "two", "active")
    assert await pending(other) == []
    await each_row_is_in_one_place(other)


# Rule 4: versions only rise


async def test_rule_4_undo_gives_a_new_number_so_that_who_read_before_is_refused(
    memory: Memory, other: Memory, llm: Scripted, other_llm: Scripted
) -> None:
    """All is as it was when the first one read, and the lease seems never to have been lost: the number alone tells."""
    scope_id = await remember(memory, "one")
    other_llm.then(copied)

    async def meanwhile(request: Request[Any]) -> str:
        ((fence,),) = await rows(other, "SELECT fence FROM memory.scopes")
        await rows(other, LEASES_END.format("scopes"))
        await other.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
        assert (await other.scopes.undo(agent_id="ada", scope_id=f"s{scope_id}")).version == 2
        await rows(other, "UPDATE memory.scopes SET fence = :fence", fence=fence)
        assert await rows(other, f"SELECT content, done_seq FROM {TOLD}") == [(None, 0)]  # noqa: S608
        return copied(request)

    llm.then(meanwhile)
    with pytest.raises(StaleError):
        await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert await told(other) == []
    assert await pending(other) == ["one"]


async def test_rule_4_version_knows_what_it_was_written_on(
    memory: Memory, other: Memory, llm: Scripted, other_llm: Scripted
) -> None:
    llm.then(copied, copied)
    other_llm.then(copied)
    scope_id = await remember(memory, "one")
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await remember(other, "two")
    await other.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await memory.scopes.undo(agent_id="ada", scope_id=f"s{scope_id}")
    assert await told(other) == ["one"]
    await other.scopes.undo(agent_id="ada", scope_id=f"s{scope_id}")
    assert await told(memory) == []
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert await rows(memory, "SELECT version, base, live FROM memory.consolidations ORDER BY version") == [
        (1, 0, False), (2, 1, False), (3, 1, False), (5, 4, True),
    ]  # fmt: skip


# Rule 5: one way back


async def test_rule_5_two_who_undo_at_once_take_back_one_version_each(
    memory: Memory, other: Memory, llm: Scripted
) -> None:
    for fact in ("one", "two", "three"):
        scope_id = await remember(memory, fact)
        llm.then(copied)
        await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    async with locked(memory):
        undone = await in_turn(
            memory, *(one.scopes.undo(agent_id="ada", scope_id=f"s{scope_id}") for one in (memory, other))
        )
    assert [(result.version, result.content) for result in await ended(*undone)] == [(4, "one\ntwo"), (5, "one")]
    assert await pending(other) == ["three", "two"]
    await each_row_is_in_one_place(other)


async def test_rule_5_undo_while_a_text_is_written_loses_and_doubles_nothing(
    memory: Memory, other: Memory, llm: Scripted
) -> None:
    """What the undone version took from below the watermark waits as passed over, what it took from above just waits."""
    scope_id = await remember(memory, "one", "two", "three")
    await set_status(memory, "two", "archived")
    llm.then(copied)
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await set_status(memory, "two", "active")
    await remember(memory, "four", "five")
    await set_status(memory, "four", "archived")
    llm.then(copied)
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert await ranges(memory) == [(1, 0, 3, []), (2, 3, 5, [2])]
    await remember(memory, "six")

    async def meanwhile(request: Request[Any]) -> str:
        await other.scopes.undo(agent_id="ada", scope_id=f"s{scope_id}")
        return copied(request)

    llm.then(meanwhile)
    with pytest.raises(StaleError):
        await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert await rows(other, "SELECT seq, repend FROM memory.observation_states ORDER BY seq") == [
        (2, True), (4, False),
    ]  # fmt: skip
    await each_row_is_in_one_place(other)
    await set_status(other, "four", "active")
    assert await pending(other) == ["five", "four", "six", "two"]
    llm.then(copied)
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert sorted(await told(other)) == sorted(["one", "two", "three", "four", "five", "six"])


# Rule 6: what was taken out while a model worked doesn't come back


async def test_rule_6_text_is_refused_when_something_was_quarantined_while_it_was_written(
    memory: Memory, other: Memory, llm: Scripted, other_llm: Scripted
) -> None:
    """Version, watermark and lease are as they were: the epoch alone tells."""
    scope_id = await remember(memory, "a secret", "one")

    async def meanwhile(request: Request[Any]) -> str:
        ((fence,),) = await rows(other, "SELECT fence FROM memory.scopes")
        await set_aside(other, other_llm)
        await rows(other, "UPDATE memory.scopes SET fence = :fence", fence=fence)
        return copied(request)

    llm.then(meanwhile)
    with pytest.raises(StaleError):
        await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert await told(other) == []
    assert await pending(other) == ["one"]
    await each_row_is_in_one_place(other)


@pytest.mark.parametrize("undone", [False, True], ids=["", "and then undone"])
async def test_rule_6_observations_are_refused_when_something_that_was_shown_was_quarantined(
    memory: Memory, other: Memory, llm: Scripted, other_llm: Scripted, undone: bool
) -> None:
    scope_id = await remember(memory, "one")
    llm.then(copied)
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await remember(memory, "a secret")
    await memory.add(conversation(4), **HERE)

    async def meanwhile(request: Request[Any]) -> str:
        assert "a secret" in request.prompt
        await set_aside(other, other_llm)
        if undone:
            await other.scopes.undo(agent_id="ada", scope_id=f"s{scope_id}")
        return extracted(("a secret again", "individual"))

    llm.then(meanwhile)
    with pytest.raises(StaleError):
        await memory.conversations.form(**SESSION)
    assert await rows(other, "SELECT content FROM memory.observations ORDER BY seq") == [("one",), ("a secret",)]
    llm.then(extracted(("Tea.", "individual")))
    assert len((await memory.conversations.form(**SESSION)).observations) == 1
    assert "a secret" not in llm.requests[-1].prompt


async def test_rule_6_undo_of_what_was_shown_takes_nothing_out(memory: Memory, other: Memory, llm: Scripted) -> None:
    scope_id = await remember(memory, "one")
    llm.then(copied)
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await memory.add(conversation(4), **HERE)

    async def meanwhile(_: Request[Any]) -> str:
        await other.scopes.undo(agent_id="ada", scope_id=f"s{scope_id}")
        return extracted(("Tea.", "individual"))

    llm.then(meanwhile)
    assert len((await memory.conversations.form(**SESSION)).observations) == 1
    assert await pending(other) == ["Tea.", "one"]
    await each_row_is_in_one_place(other)


async def test_rule_6_conversation_that_was_excluded_and_included_again_is_not_what_it_was(
    memory: Memory, other: Memory, llm: Scripted
) -> None:
    """Cursor, lease and flag are as they were: the epoch alone tells, also for an answer that is stored already."""
    await memory.add(conversation(4), **HERE)
    async with serving(memory) as unit:
        _, loaded = await loading(unit, "ada", "s", memory.settings, MONDAY, "due")
    assert loaded is not None
    llm.then(extracted(("Said in confidence.", "individual")))
    answered = await formation.decide(llm, loaded, memory.settings)
    async with serving(memory) as unit:
        await formation.keep(unit, loaded, answered, memory.settings)
    await other.conversations.exclude(**SESSION)
    await other.conversations.exclude(**SESSION, excluded=False)
    with pytest.raises(StaleError):
        async with serving(memory) as unit:
            await formation.apply(unit, loaded, answered, memory.settings, MONDAY)
    assert await rows(other, "SELECT count(*) FROM memory.observations") == [(0,)]


async def test_rule_6_messages_that_were_discarded_while_the_model_read_them_are_not_formed(
    memory: Memory, other: Memory, llm: Scripted, other_llm: Scripted
) -> None:
    """Lease and epoch are as they were: the cursor alone tells, also for an answer that is stored already."""
    await memory.add([message("Actually, I prefer tea.")], **HERE)
    other_llm.then(*HOPELESS)
    await other.run_due()
    (dead,) = await other.work.dead()
    async with serving(memory) as unit:
        _, loaded = await loading(unit, "ada", "s", memory.settings, MONDAY, "asked")
    assert loaded is not None
    llm.then(extracted(("Tea.", "individual")))
    answered = await formation.decide(llm, loaded, memory.settings)
    async with serving(memory) as unit:
        await formation.keep(unit, loaded, answered, memory.settings)
    await other.work.discard(agent_id="ada", run_id=dead.run_id)
    with pytest.raises(StaleError):
        async with serving(memory) as unit:
            await formation.apply(unit, loaded, answered, memory.settings, MONDAY)
    assert await rows(other, "SELECT count(*) FROM memory.observations") == [(0,)]
    assert (await other.conversations.form(**SESSION)).run_ids == ()


@pytest.mark.slow
@pytest.mark.parametrize("kept", [False, True], ids=["before the answer was stored", "after"])
async def test_rule_6_lease_that_was_lost_and_is_free_again_is_still_lost(
    memory: Memory, other: Memory, llm: Scripted, other_llm: Scripted, kept: bool
) -> None:
    """Cursor and epoch are as they were, and nobody is at it: the fence alone tells."""
    await memory.add(conversation(4), **HERE)
    async with serving(memory) as unit:
        _, loaded = await loading(unit, "ada", "s", memory.settings, MONDAY, "due")
    assert loaded is not None
    llm.then(extracted(("Late.", "individual")))
    answered = await formation.decide(llm, loaded, memory.settings)
    if kept:
        async with serving(memory) as unit:
            await formation.keep(unit, loaded, answered, memory.settings)
    await rows(other, LEASES_END.format("conversations"))
    claimed = await other.work.claim("formation", by=FAR)
    assert claimed is not None
    other_llm.then(*[] if kept else HOPELESS)
    await rows(other, "ALTER TABLE memory.observations ADD CONSTRAINT stumble CHECK (false) NOT VALID")
    assert (await claimed()).failed
    await rows(other, "ALTER TABLE memory.observations DROP CONSTRAINT stumble")
    assert await rows(other, "SELECT lease_until, formed_number, epoch FROM memory.conversations") == [(None, 0, 0)]
    with pytest.raises(StaleError):
        async with serving(memory) as unit:
            await formation.apply(unit, loaded, answered, memory.settings, MONDAY)
    assert await rows(other, "SELECT count(*) FROM memory.observations") == [(0,)]


@pytest.mark.slow
async def test_rule_6_stored_answer_keeps_the_epochs_that_its_prompt_saw(
    memory: Memory, other: Memory, llm: Scripted, other_llm: Scripted
) -> None:
    """Whoever takes it over compares with them, not with those of its own time."""
    await remember(memory, "a secret")
    await memory.add(conversation(4), **HERE)
    async with serving(memory) as unit:
        _, loaded = await loading(unit, "ada", "s", memory.settings, MONDAY, "due")
    assert loaded is not None
    llm.then(extracted(("a secret again", "individual")))
    answered = await formation.decide(llm, loaded, memory.settings)
    async with serving(memory) as unit:
        await formation.keep(unit, loaded, answered, memory.settings)
    await rows(other, LEASES_END.format("conversations"))
    await set_aside(other, other_llm)
    other_llm.then(extracted(("Tea.", "individual")))
    assert [o.content for o in (await other.conversations.form(**SESSION)).observations] == ["Tea."]
    assert "a secret" not in other_llm.requests[-1].prompt


# Rule 8: quarantine


async def test_rule_8_what_is_given_up_is_what_the_run_read_and_nothing_that_came_since(
    memory: Memory, other: Memory, llm: Scripted
) -> None:
    await remember(memory, "poison", "two")
    asked, go = asyncio.Event(), asyncio.Event()
    trying = asyncio.ensure_future(set_aside(memory, llm, slowly("", asked, go)))
    await asked.wait()
    async with locked(memory):
        (three,) = await in_turn(memory, remember(other, "three"))
        go.set()
        await are_waiting(memory, 2)
        four = asyncio.ensure_future(remember(other, "four"))
        await are_waiting(memory, 3)
    await ended(three, trying, four)
    assert await rows(other, "SELECT seq, status FROM memory.observation_states") == [(1, "given_up")]
    assert await pending(other) == ["four", "three", "two"]
    await each_row_is_in_one_place(other)


# Rule 9: duplicates


async def test_rule_9_same_thing_learnt_by_two_at_once_is_one_row_with_the_evidence_of_both(
    memory: Memory, other: Memory
) -> None:
    await remember(memory, "one")
    async with locked(memory):
        calls = await in_turn(memory, remember(memory, "tea"), remember(other, "Tea "))
    await ended(*calls)
    assert await rows(memory, "SELECT seq, content FROM memory.observations ORDER BY seq") == [(1, "one"), (2, "tea")]
    assert await rows(memory, "SELECT seq FROM memory.evidence ORDER BY evidence_id") == [(1,), (2,), (2,)]


async def test_rule_9_same_words_are_one_row_when_others_came_between(memory: Memory, other: Memory) -> None:
    await remember(memory, "tea")
    async with locked(memory):
        calls = await in_turn(memory, remember(memory, "coffee"), remember(other, "tea"))
    await ended(*calls)
    assert await rows(memory, "SELECT content FROM memory.observations ORDER BY seq") == [("tea",), ("coffee",)]
    assert await rows(memory, "SELECT seq, apart FROM memory.evidence ORDER BY evidence_id") == [
        (1, False), (2, False), (1, True),
    ]  # fmt: skip


@pytest.mark.parametrize("change", ["archived", "in another lane"])
async def test_rule_9_twin_that_has_gone_meanwhile_is_no_twin(memory: Memory, other: Memory, change: str) -> None:
    await remember(memory, "tea")
    async with locked(memory) as unit:
        (call,) = await in_turn(memory, remember(other, "tea"))
        if change == "archived":
            await set_status_in(unit, "tea", "archived", 2)
        else:
            await unit.execute(sql("UPDATE memory.observations SET lane = 'buffer'"))
    await ended(call)
    assert await rows(memory, "SELECT seq FROM memory.observations ORDER BY seq") == [(1,), (2,)]
    assert await pending(other) == ["tea"]


# Rule 11: due


async def test_rule_11_scope_is_due_when_two_reach_the_threshold_together(memory: Memory, other: Memory) -> None:
    await remember(memory, "one")
    assert not await is_due(memory)
    await set_status(memory, "one", "archived")
    async with locked(memory):
        calls = await in_turn(memory, remember(memory, "two"), remember(other, "three"))
    await ended(*calls)
    assert await is_due(memory)


async def test_rule_11_scope_is_due_when_a_formation_reaches_the_threshold(
    memory: Memory, other: Memory, llm: Scripted
) -> None:
    await memory.add(conversation(4), **HERE)

    async def meanwhile(_: Request[Any]) -> str:
        await remember(other, "one")
        assert not await is_due(other)
        return extracted(("Tea.", "individual"))

    llm.then(meanwhile)
    await memory.conversations.form(**SESSION)
    assert await is_due(other)


@pytest.mark.parametrize(("came", "due"), [(["three"], False), (["three", "four"], True)])
async def test_rule_11_scope_is_due_again_at_the_commit_when_enough_came_while_the_text_was_written(
    memory: Memory, other: Memory, llm: Scripted, came: list[str], due: bool
) -> None:
    """And no more when what made it due was read."""
    scope_id = await remember(memory, "one", "two")
    seen: list[bool] = []

    async def more(request: Request[Any]) -> str:
        await remember(other, *came)
        return copied(request)

    async def look(request: Request[Any]) -> str:
        seen.append(await is_due(other))
        return copied(request)

    llm.then(more, look)
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert seen == [due]
    assert not await is_due(other)


async def test_rule_11_scope_is_due_no_more_when_it_was_undone_and_due_when_something_new_comes(
    memory: Memory, other: Memory, llm: Scripted
) -> None:
    scope_id = await remember(memory, "one")
    llm.then(copied)
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await remember(memory, "two", "three")
    assert await is_due(memory)
    async with locked(memory):
        calls = await in_turn(memory, memory.scopes.undo(agent_id="ada", scope_id=f"s{scope_id}"))
    await ended(*calls)
    assert not await is_due(other)
    await remember(other, "four")
    assert await is_due(memory)


@pytest.mark.parametrize(("came", "due"), [(["two"], False), (["two", "three"], True)])
async def test_rule_11_scope_is_due_when_what_came_after_the_poison_is_enough(
    memory: Memory, other: Memory, llm: Scripted, came: list[str], due: bool
) -> None:
    await remember(memory, "poison")

    async def meanwhile(_: Request[Any]) -> str:
        await remember(other, *came)
        return ""

    await set_aside(memory, llm, meanwhile)
    assert await pending(other) == sorted(came)
    assert await is_due(other) is due


async def test_rule_11_scope_is_due_when_what_was_given_up_is_tried_again(
    memory: Memory, other: Memory, llm: Scripted
) -> None:
    await remember(memory, "poison")
    run_id = await set_aside(memory, llm)
    await remember(other, "two")
    assert not await is_due(memory)
    async with locked(memory):
        calls = await in_turn(memory, other.work.retry(agent_id="ada", run_id=run_id))
    await ended(*calls)
    assert await pending(memory) == ["poison", "two"]
    assert await is_due(memory)


# Locks in one order


@pytest.mark.parametrize("decision", ["retry", "discard"])
async def test_formation_and_who_decides_on_the_one_given_up_do_not_wait_for_each_other(
    memory: Memory, other: Memory, llm: Scripted, other_llm: Scripted, decision: str
) -> None:
    await memory.add([message("Actually, I prefer tea.")], **HERE)
    other_llm.then(*HOPELESS)
    await other.run_due()
    (dead,) = await other.work.dead()
    async with serving(memory) as unit:
        _, loaded = await loading(unit, "ada", "s", memory.settings, MONDAY, "asked")
    assert loaded is not None
    llm.then(extracted(("Tea.", "individual")))
    answered = await formation.decide(llm, loaded, memory.settings)

    async def apply() -> None:
        async with serving(memory) as unit:
            await formation.apply(unit, loaded, answered, memory.settings, MONDAY)

    async with locked(memory, "conversations"):
        applied, decided = await in_turn(
            memory, apply(), getattr(other.work, decision)(agent_id="ada", run_id=dead.run_id)
        )
    await ended(applied)
    with pytest.raises(NotFoundError):  # it has gone on without them
        await ended(decided)
    assert await pending(other) == ["Tea."]


async def test_correction_of_what_is_erased_while_it_waits_finds_nothing(memory: Memory, other: Memory) -> None:
    known = await memory.observe("Tea.", **MIA)
    async with locked(memory):
        forgotten, corrected = await in_turn(
            memory,
            memory.forget(Selection(everything=True), agent_id="ada"),
            other.observations.update(known.id, **MIA, text="Coffee."),
        )
    await ended(forgotten)
    with pytest.raises(NotFoundError):
        await ended(corrected)


@pytest.mark.slow
async def test_forgetting_that_finds_more_under_its_locks_locks_conversations_first_again(
    memory: Memory, other: Memory, llm: Scripted
) -> None:
    """While it waits for a scope another conversation confirms what goes; the next formation of that one is under way."""
    llm.then(extracted(("Tea.", "individual")))
    await memory.add(conversation(4), **HERE)
    await memory.conversations.form(**SESSION)
    await memory.add(conversation(4), **{**HERE, "conversation_id": "t"})
    async with serving(memory) as unit:
        _, loaded = await loading(unit, "ada", "t", memory.settings, MONDAY, "asked")
    assert loaded is not None
    llm.then(extracted(("Tea.", "individual")))
    answered = await formation.decide(llm, loaded, memory.settings)

    async def next_formation() -> None:
        """Locks as `formation.apply` does."""
        async with serving(other) as unit:
            await unit.execute(sql("SELECT FROM memory.conversations WHERE conversation_id = 't' FOR NO KEY UPDATE"))
            await are_waiting(memory, 1)
            await asyncio.sleep(0.2)  # for as long as it takes to look again
            await unit.execute(sql("SELECT FROM memory.scopes FOR NO KEY UPDATE"))

    (observation,) = await memory.observations.list(**MIA)
    async with serving(memory) as unit:
        await formation.apply(unit, loaded, answered, memory.settings, MONDAY)
        calls = await in_turn(memory, memory.forget(observation.id, agent_id="ada"), next_formation())
    receipt, _ = await ended(*calls)
    assert receipt.counts["messages"] == 4
    gone = "SELECT conversation_id, count(*) FROM memory.messages WHERE content IS NULL GROUP BY 1 ORDER BY 1"
    assert await rows(other, gone) == [("s", 2), ("t", 2)]  # each with its answer


@pytest.mark.parametrize(("decision", "left"), [("retry", ["poison"]), ("discard", [])])
async def test_consolidation_and_who_decides_on_the_one_given_up_do_not_wait_for_each_other(
    memory: Memory, other: Memory, llm: Scripted, decision: str, left: list[str]
) -> None:
    """What comes back while a text is written that has passed it waits for the next."""
    scope_id = await remember(memory, "poison")
    run_id = await set_aside(memory, llm)
    await remember(memory, "one")
    asked, go = asyncio.Event(), asyncio.Event()
    llm.then(slowly("one", asked, go))
    async with serving(memory) as unit:
        scope = await ScopeRepository(unit).claim_of("ada", scope_id, timedelta(minutes=5))
        assert scope is not None
        loaded = await consolidation.load(unit, "ada", scope, memory.settings, MONDAY, "asked")
    assert loaded is not None

    async def consolidate() -> None:
        decided = await consolidation.decide(llm, loaded, memory.settings)
        async with serving(memory) as unit:
            await consolidation.apply(unit, loaded, decided, memory.settings, MONDAY)

    consolidating = asyncio.ensure_future(consolidate())
    await asked.wait()
    async with locked(memory):
        go.set()
        await are_waiting(memory, 1)
        decided = asyncio.ensure_future(getattr(other.work, decision)(agent_id="ada", run_id=run_id))
        await are_waiting(memory, 2)
    await ended(consolidating, decided)
    assert await told(other) == ["one"]
    assert await pending(other) == left
    await each_row_is_in_one_place(other)
    with pytest.raises(NotFoundError):
        await getattr(other.work, decision)(agent_id="ada", run_id=run_id)
