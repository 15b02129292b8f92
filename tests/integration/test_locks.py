"""Who waits for whom: one order of locks, what a deadlock costs, and that a hold and a forgetting see each other.

Each test has several connections and fixes the order in which they act: one waits for a lock that another holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text as sql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.locks import Locks, Rows, under_locks
from memory_sql.db.models import EventRow
from memory_sql.db.principals import SERVICE, enter
from memory_sql.db.repositories.erasure import ForgettingRepository
from memory_sql.db.repositories.formations import FormationRepository
from memory_sql.db.repositories.scopes import ScopeRepository
from memory_sql.db.urls import asyncpg_url
from memory_sql.domain.selection import Selection
from memory_sql.errors import (
    AnswerError,
    BusyError,
    DatabaseError,
    HeldError,
    InputError,
    LockTimeoutError,
    NotFoundError,
    StaleError,
    VersionError,
)
from memory_sql.jobs import work
from memory_sql.lifecycle import journal, observing
from memory_sql.memory import Memory
from memory_sql.propagation import propagation
from tests.database import are_waiting, owners_url, rows, serving, statements
from tests.factories import MONDAY, message
from tests.fakes import Parrot

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
SECONDS = 30
FAR = MONDAY.replace(year=9000)
SETTINGS = Settings(llm="offline", consolidation_threshold=100, lock_timeout_seconds=60, pool_timeout_seconds=60)
Act = Callable[[Memory, str, AsyncSession | None], Awaitable[Any]]


@pytest.fixture
async def memory(database_url: str) -> AsyncIterator[Memory]:
    async with Memory(database_url, Parrot(), SETTINGS) as opened:
        yield opened
        assert list(await opened.admin.verify()) == []


@pytest.fixture
async def host(database_url: str) -> AsyncIterator[AsyncSession]:
    """A transaction of the host's, from its own pool, that stays open until the test ends it."""
    engine = create_async_engine(asyncpg_url(owners_url(database_url)), hide_parameters=True)
    async with async_sessionmaker(engine, expire_on_commit=False)() as session:
        yield session
    await engine.dispose()


async def ended(*begun: Awaitable[Any]) -> list[Any]:
    async with asyncio.timeout(SECONDS):
        return await asyncio.gather(*begun)


async def say(memory: Memory, *said: str, user: str = "mia", conversation: str = "s", **more: Any) -> None:
    messages = [message(text, n=n) for n, text in enumerate(said, 1)]
    await memory.add(messages, **ADA, user_id=user, conversation_id=conversation, **more)
    await memory.conversations.form(**ADA, conversation_id=conversation)


async def shared(memory: Memory) -> str:
    """What Mia has said, from which the group's was made; the id of the first."""
    await say(memory, "The dock opens at seven.", group_ids=["crew"])
    await memory.groups.add_member("crew", "jonas", **ADA)
    (mine,) = await memory.observations.list(**MIA)
    await memory.scopes.consolidate(**ADA, scope_id=mine.scope.id)
    await memory.scopes.propagate(**ADA, scope_id=mine.scope.id)
    assert await owners(memory) == ["g:crew", "u:mia"]
    return mine.id


async def owners(memory: Memory) -> list[str]:
    """Of the scopes that hold something active."""
    found = await rows(
        memory,
        "SELECT DISTINCT s.owner FROM memory.observations o JOIN memory.scopes s USING (agent_key, scope_id)"
        " LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq)"
        " WHERE coalesce(t.status, 'active') = 'active' ORDER BY 1",
    )
    return [owner for (owner,) in found]


# A hold holds


def forgets(memory: Memory, _id: str, session: AsyncSession | None = None) -> Awaitable[Any]:
    return memory.forget(Selection(user_id="mia"), **ADA, wait=False, session=session)


def forgets_one(memory: Memory, observation_id: str, session: AsyncSession | None = None) -> Awaitable[Any]:
    return memory.forget(observation_id, **ADA, wait=False, session=session)


def marks(memory: Memory, observation_id: str, session: AsyncSession | None = None) -> Awaitable[Any]:
    return memory.observations.mark(observation_id, **MIA, private=True, session=session)


def leaves(memory: Memory, _id: str, session: AsyncSession | None = None) -> Awaitable[Any]:
    return memory.groups.remove_member("crew", "mia", **ADA, session=session)


def erases(memory: Memory, _id: str, session: AsyncSession | None = None) -> Awaitable[Any]:
    return memory.forget(Selection(everything=True), **ADA, session=session)


def next_of(target: dict[str, Any]) -> str:
    return next(iter(target))


TAKES_OUT = pytest.mark.parametrize("act", [forgets, forgets_one, marks, leaves, erases])


@TAKES_OUT
async def test_hold_waits_for_what_is_taken_out_meanwhile(memory: Memory, host: AsyncSession, act: Act) -> None:
    """With session= the window is as long as the host's transaction."""
    observation_id = await shared(memory)
    await act(memory, observation_id, host)
    placing = asyncio.ensure_future(memory.holds.place(**ADA, group_id="crew"))
    await are_waiting(memory, 1)
    assert await rows(memory, "SELECT count(*) FROM memory.holds") == [(0,)]
    await host.commit()
    await ended(placing)
    assert "g:crew" not in await owners(memory)


@pytest.mark.slow
@pytest.mark.parametrize("act", [forgets, forgets_one, erases])
async def test_hold_on_what_has_gone_meanwhile_says_so(memory: Memory, host: AsyncSession, act: Act) -> None:
    observation_id = await shared(memory)
    await act(memory, observation_id, host)
    placing = asyncio.ensure_future(memory.holds.place(**ADA, observation_id=observation_id))
    await are_waiting(memory, 1)
    await host.commit()
    with pytest.raises(NotFoundError):
        await ended(placing)


@pytest.mark.slow
@TAKES_OUT
async def test_what_takes_out_waits_for_a_hold_and_sees_it(memory: Memory, host: AsyncSession, act: Act) -> None:
    observation_id = await shared(memory)
    await memory.holds.place(**ADA, group_id="crew", session=host)
    acting = asyncio.ensure_future(act(memory, observation_id, None))
    await are_waiting(memory, 1)
    await host.commit()
    if act is erases:
        with pytest.raises(HeldError):
            await ended(acting)
    else:
        await ended(acting)
    ((held,),) = await rows(
        memory,
        "SELECT count(*) FROM memory.observations JOIN memory.scopes USING (agent_key, scope_id) WHERE owner = 'g:crew'",
    )
    assert held == 1


@pytest.mark.slow
@pytest.mark.parametrize("target", [{"user_id": "mia"}, {"conversation_id": "s"}, {"group_id": "crew"}], ids=next_of)
async def test_hold_says_how_much_a_forgetting_has_left_to_it(
    memory: Memory, host: AsyncSession, target: dict[str, Any]
) -> None:
    await shared(memory)
    before = await memory.holds.place(**ADA, **target)
    assert (before.observations > 0, before.messages) == (True, 1)
    await memory.holds.release(before.hold_id, **ADA)
    await forgets(memory, "", host)
    placing = asyncio.ensure_future(memory.holds.place(**ADA, **target))
    await are_waiting(memory, 1)
    await host.commit()
    (after,) = await ended(placing)
    assert (after.observations, after.messages) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("target", [{"user_id": "mia"}, {"conversation_id": "s"}, {"group_id": "crew"}], ids=next_of)
async def test_forgetting_leaves_what_a_hold_said_that_it_keeps(
    memory: Memory, host: AsyncSession, target: dict[str, Any]
) -> None:
    await shared(memory)
    held = await memory.holds.place(**ADA, **target, session=host)
    forgetting = asyncio.ensure_future(forgets(memory, ""))
    await are_waiting(memory, 1)
    await host.commit()
    await ended(forgetting)
    assert await memory.holds.place(**ADA, **target) == held


@pytest.mark.parametrize("act", ["retry", "discard"])
async def test_work_that_was_given_up_and_is_erased_meanwhile_is_not_found(
    memory: Memory, host: AsyncSession, act: str
) -> None:
    await say(memory, "The dock opens at seven.")
    dead = "UPDATE memory.runs SET state = 'dead', error_code = 'empty' WHERE kind = 'formation' RETURNING run_id"
    ((run_id,),) = await rows(memory, dead)
    await erases(memory, "", host)
    acting = asyncio.ensure_future(getattr(memory.work, act)(**ADA, run_id=run_id))
    await are_waiting(memory, 1)
    await host.commit()
    with pytest.raises(NotFoundError):
        await ended(acting)


async def test_journal_is_repeated_under_locks_in_order(memory: Memory, host: AsyncSession, tmp_path: Path) -> None:
    """Also on a conversation that loses nothing but a participant: it comes before the scopes."""
    await memory.add([message("Hello.", role="assistant")], **MIA, conversation_id="s")
    await memory.observe("Tea.", **MIA)
    entry = journal.Entry(id="e", at=memory.now(), agent_id="ada", users=("mia",))
    journal.plan(tmp_path / "journal", entry)
    journal.done(tmp_path / "journal", entry.id)
    await host.execute(sql("SELECT FROM memory.conversations FOR NO KEY UPDATE"))
    repeating = asyncio.ensure_future(memory.admin.restore_check(tmp_path / "journal"))
    await are_waiting(memory, 1)
    await host.execute(sql("SELECT FROM memory.scopes FOR NO KEY UPDATE NOWAIT"))
    await host.rollback()
    ((receipt,),) = await ended(repeating)
    assert receipt.counts["observations"] == 1
    assert await rows(memory, "SELECT participants FROM memory.conversations") == [([],)]


async def test_hold_stops_no_one_who_only_adds(memory: Memory, host: AsyncSession) -> None:
    """Foreign keys to the agent go on: only erasing the whole agent stops them."""
    await memory.observe("Tea.", **MIA)
    await memory.holds.place(**MIA, session=host)
    async with asyncio.timeout(SECONDS):
        await memory.add([message()], **MIA, conversation_id="new", group_ids=["club"])
        await memory.observe("Boats.", **ADA, user_id="jonas")
    await host.rollback()


# Leaving and forgetting


@pytest.mark.parametrize("first", ["leave", "forget"])
async def test_leaving_and_forgetting_at_once_each_have_an_answer(
    memory: Memory, host: AsyncSession, first: str
) -> None:
    await shared(memory)
    await (leaves if first == "leave" else forgets)(memory, "", host)
    second = asyncio.ensure_future((forgets if first == "leave" else leaves)(memory, "", None))
    await are_waiting(memory, 1)
    await host.commit()
    if first == "forget":
        with pytest.raises(NotFoundError, match="mia"):  # no member any more
            await ended(second)
    else:
        await ended(second)
    assert await rows(memory, "SELECT count(*) FROM memory.members WHERE user_id = 'mia'") == [(0,)]


# One order of locks


def quarantines(memory: Memory, observation_id: str, session: AsyncSession | None = None) -> Awaitable[Any]:
    return memory.observations.quarantine(observation_id, **MIA, session=session)


async def test_formation_of_a_conversation_that_is_being_renamed_is_refused(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As its run begins: not by a foreign key."""
    await memory.add([message()], **MIA, conversation_id="s")
    start = FormationRepository.start

    async def started(*given: Any) -> Any:
        monkeypatch.undo()
        async with memory.database.transaction(principal=SERVICE) as unit:
            await memory.people.rename(**ADA, kind="conversation", old="s", new="t", session=unit)
            starting = asyncio.create_task(start(*given))
            await are_waiting(memory, 1)
        return await starting

    monkeypatch.setattr(FormationRepository, "start", started)
    with pytest.raises(StaleError):
        await memory.conversations.form(**ADA, conversation_id="s")
    assert (await memory.conversations.form(**ADA, conversation_id="t")).messages == 1


@pytest.mark.parametrize("ends", ["judged", "given up"])
async def test_group_that_is_renamed_while_the_model_judges_is_not_made_anew(memory: Memory, ends: str) -> None:
    await memory.groups.create("crew", **ADA)
    for user in ("mia", "jonas"):
        await memory.groups.add_member("crew", user, **ADA)
    mine = await memory.observe("The dock opens at seven.", **MIA)
    await memory.scopes.consolidate(**ADA, scope_id=mine.scope.id)
    settings, now = memory.settings, memory.now()
    async with serving(memory) as unit:
        _, loaded = await propagation.load(unit, "ada", 1, mine.scope.key, settings, now, "due")
    assert loaded is not None
    decided = await propagation.decide(Parrot(), loaded, settings)
    await memory.people.rename(**ADA, kind="group", old="crew", new="staff")
    async with serving(memory) as unit:
        if ends == "judged":
            await propagation.apply(unit, loaded, decided, settings, now)
        else:
            last = replace(loaded, scope=replace(loaded.scope, propagation_errors=50))
            await propagation.fail(unit, last, AnswerError("unusable"), settings, now)
    assert await rows(memory, "SELECT owner FROM memory.scopes ORDER BY scope_id") == [("g:staff",), ("u:mia",)]
    outcome = "propagated" if ends == "judged" else "refused"
    assert await rows(memory, "SELECT outcome, target_scope_id FROM memory.judged") == [(outcome, 1)]


def updates(memory: Memory, observation_id: str, session: AsyncSession | None = None) -> Awaitable[Any]:
    return memory.observations.update(observation_id, **MIA, text="The dock opens at eight.", session=session)


def observes(memory: Memory, _id: str, session: AsyncSession | None = None) -> Awaitable[Any]:
    return memory.observe("The dock opens at eight.", **MIA, fact_key="dock", session=session)


def confirms(memory: Memory, observation_id: str, session: AsyncSession | None = None) -> Awaitable[Any]:
    return memory.observations.confirm(observation_id, **MIA, session=session)


LOCK = "SELECT FROM memory.scopes WHERE owner = :owner FOR NO KEY UPDATE"
LINEAGE = (
    "INSERT INTO memory.lineage (agent_key, scope_id, seq, source_scope_id, source_seq, whole)"
    " VALUES (:agent, :scope, 1, :source, 1, true)"
)


@pytest.mark.parametrize("act", [quarantines, marks, forgets_one, updates, observes, confirms])
async def test_scope_that_is_found_late_is_locked_in_order(memory: Memory, host: AsyncSession, act: Act) -> None:
    """It holds Mia's scope when it finds something in the group's, which comes first, and which the host has by then.

    What came of hers for the group is joined to it only when the call waits for her scope, past its first look.
    """

    async def acts(observation_id: str) -> None:
        async with serving(memory) as unit:  # as a host's, it isn't done again
            await act(memory, observation_id, unit)

    await memory.groups.create("crew", **ADA)
    for user in ("mia", "jonas"):
        await memory.groups.add_member("crew", user, **ADA)
    mine = await memory.observe("The dock opens at seven.", **MIA, fact_key="dock")
    await memory.scopes.consolidate(**ADA, scope_id=mine.scope.id)
    assert await rows(memory, "SELECT owner FROM memory.scopes ORDER BY scope_id") == [("g:crew",), ("u:mia",)]
    async with serving(memory) as unit:
        _, loaded = await propagation.load(unit, "ada", 1, mine.scope.key, memory.settings, memory.now(), "asked")
    assert loaded is not None
    decided = await propagation.decide(Parrot(), loaded, memory.settings)
    async with serving(memory) as unit:
        await propagation.apply(unit, loaded, decided, memory.settings, memory.now())
    (made,) = await rows(memory, "DELETE FROM memory.lineage RETURNING agent_key, scope_id, source_scope_id")
    await host.execute(sql("SET LOCAL deadlock_timeout = '20s'"))  # if there is a deadlock, the other finds it
    async with serving(memory) as unit:
        await unit.execute(sql(LOCK), {"owner": "u:mia"})
        acting = asyncio.ensure_future(acts(mine.id))
        await are_waiting(memory, 1)
        await rows(memory, LINEAGE, agent=made[0], scope=made[1], source=made[2])
        await host.execute(sql(LOCK), {"owner": "g:crew"})
    await are_waiting(memory, 1)
    await ended(host.execute(sql(LOCK), {"owner": "u:mia"}))
    await host.commit()
    await ended(acting)
    assert ("g:crew" in await owners(memory)) == (act is confirms)


async def merged(memory: Memory) -> tuple[str, str]:
    """The group's, merged of what Mia and Jonas have said; with Mia's."""
    await memory.groups.create("crew", **ADA)
    for user in ("mia", "jonas"):
        await memory.groups.add_member("crew", user, **ADA)
    both = await memory.observe("Both sail at dawn.", **ADA, group_id="crew")
    first, _ = [await memory.observe("I sail at dawn.", **ADA, user_id=user) for user in ("mia", "jonas")]
    await rows(
        memory,
        "INSERT INTO memory.lineage (agent_key, scope_id, seq, source_scope_id, source_seq, whole)"
        " SELECT agent_key, :scope, 1, scope_id, seq, false FROM memory.observations WHERE scope_id <> :scope",
        scope=both.scope.key,
    )
    return both.id, first.id


def ends_quarantine(memory: Memory, observation_id: str, session: AsyncSession | None = None) -> Awaitable[Any]:
    return memory.observations.unquarantine(observation_id, **MIA, session=session)


@pytest.mark.parametrize("act", [quarantines, ends_quarantine])
async def test_scope_of_what_was_merged_and_is_held_is_locked_in_order(
    memory: Memory, host: AsyncSession, act: Act
) -> None:
    """It is set aside and comes back with its sources, and isn't in the closure."""
    both, mine = await merged(memory)
    await memory.holds.place(**ADA, observation_id=both)
    if act is ends_quarantine:
        await quarantines(memory, mine)
    await host.execute(sql("SET LOCAL deadlock_timeout = '20s'"))
    await host.execute(sql(LOCK), {"owner": "g:crew"})
    async with serving(memory) as unit:
        acting = asyncio.ensure_future(act(memory, mine, unit))
        await are_waiting(memory, 1)
        await ended(host.execute(sql(LOCK), {"owner": "u:mia"}))
        await host.commit()
        await ended(acting)
    assert ("g:crew" in await owners(memory)) == (act is ends_quarantine)


async def test_conversation_that_begins_while_it_is_forgotten_is_locked(
    memory: Memory, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it is formed between the look at what goes and its erasing, and what was made of it stays."""
    await memory.observe("The dock opens at seven.", **MIA)
    seeds, closed = ForgettingRepository.seeds, ForgettingRepository.closure_beside
    looks = list[str]()

    async def looking(*given: Any) -> Any:
        if not looks:
            await memory.add([message("I hide my ruby.")], **MIA, conversation_id="s")
        looks.append("s")
        return await seeds(*given)

    async def looked(*given: Any) -> Any:
        found = await closed(*given)
        with pytest.raises(LockTimeoutError):
            await hasty.conversations.form(**ADA, conversation_id="s")
        return found

    monkeypatch.setattr(ForgettingRepository, "seeds", looking)
    monkeypatch.setattr(ForgettingRepository, "closure_beside", looked)
    async with Memory(database_url, Parrot(), SETTINGS.model_copy(update={"lock_timeout_seconds": 0.1})) as hasty:
        receipt = await memory.forget(Selection(conversation_id="s"), **ADA, wait=False)
    assert receipt.counts["messages"] == 1
    monkeypatch.undo()
    await memory.conversations.form(**ADA, conversation_id="s")
    assert await rows(memory, "SELECT content FROM memory.observations") == [("The dock opens at seven.",)]


async def test_connection_that_is_lost_while_locks_are_given_back_is_a_named_error(memory: Memory) -> None:
    scope_id = (await memory.observe("The dock opens at seven.", **MIA)).scope.key
    ((agent_key,),) = await rows(memory, "SELECT agent_key FROM memory.agents")

    async def step(unit: Session) -> None:
        async def act(locks: Locks) -> None:
            locks.need([scope_id])
            pooled: Any = await (await unit.connection()).get_raw_connection()
            pooled.driver_connection.terminate()
            locks.need([scope_id, scope_id + 1])

        await under_locks(unit, agent_key, act)

    with pytest.raises(DatabaseError):
        await memory.database.write(step)


async def test_who_speaks_while_being_forgotten_takes_part_and_is_a_member(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else their words stay in a conversation that seems to be another one's alone, and go when that one is forgotten."""
    lea, closed = {**ADA, "user_id": "lea"}, ForgettingRepository.closure_beside
    crew: dict[str, Any] = {"conversation_id": "s", "group_ids": ["crew"]}
    await memory.observe("Tea.", **MIA)
    await memory.add([message("The dock opens at seven.")], **lea, **crew)

    async def looked(*given: Any) -> Any:
        monkeypatch.undo()
        found = await closed(*given)
        await memory.add([message("We dive at nine.", n=2)], **MIA, **crew)
        return found

    monkeypatch.setattr(ForgettingRepository, "closure_beside", looked)
    await memory.forget(Selection(user_id="mia"), **ADA, wait=False)
    assert await rows(memory, "SELECT participants FROM memory.conversations") == [(["lea", "mia"],)]
    assert [member.user_id for member in await memory.groups.members("crew", **ADA)] == ["lea", "mia"]
    await memory.forget(Selection(user_id="lea"), **ADA, wait=False)
    assert await rows(memory, "SELECT content FROM memory.messages WHERE content IS NOT NULL") == [
        ("We dive at nine.",)
    ]
    await memory.forget(Selection(user_id="mia"), **ADA, wait=False)
    assert await memory.groups.members("crew", **ADA) == []
    assert list(await memory.admin.verify()) == []


@pytest.mark.parametrize("fact_key", ["drink", None])
async def test_what_is_forgotten_as_it_is_stored_is_not_found(
    memory: Memory, fact_key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is read again to be returned: it has a key, or was said before."""
    known = observing.known
    await memory.observe("Tea.", **MIA)

    async def forgotten(*given: Any) -> Any:
        await memory.forget(Selection(user_id="mia"), **ADA, wait=False)
        return await known(*given)

    monkeypatch.setattr(observing, "known", forgotten)
    with pytest.raises(NotFoundError, match="no observation o1-"):
        await memory.observe("Tea.", **MIA, fact_key=fact_key)


async def test_what_was_done_before_more_was_needed_is_undone(memory: Memory) -> None:
    for user in ("mia", "jonas"):
        await memory.observe("Tea.", **ADA, user_id=user)
    calls = list[Rows]()

    async def act(locks: Locks) -> int:
        calls.append(locks.rows)
        locks.need(scopes=[1])
        await unit.execute(sql("UPDATE memory.scopes SET epoch = epoch + 1"))
        locks.need(scopes=[2], conversations=["s"])
        return 7

    async with serving(memory) as unit:
        assert await under_locks(unit, 1, act) == 7
    assert calls == [Rows(), Rows(frozenset({1})), Rows(frozenset({1, 2}), frozenset({"s"}))]
    assert await rows(memory, "SELECT epoch FROM memory.scopes") == [(1,), (1,)]


@pytest.mark.slow
@pytest.mark.parametrize("autoflush", [True, False])
async def test_what_the_host_has_yet_to_send_outlives_locks_that_are_taken_anew(
    memory: Memory, autoflush: bool
) -> None:
    for user in ("mia", "jonas"):
        await memory.observe("Tea.", **ADA, user_id=user)

    async def act(locks: Locks) -> None:
        for scope_id in (1, 2):
            locks.need(scopes=[scope_id])

    async with async_sessionmaker(memory.database.engine, autoflush=autoflush)() as host:
        await enter(host, SERVICE)
        host.add(EventRow(agent_key=1, kind="note", detail={}))
        await under_locks(host, 1, act)
        assert len(host.new) == (not autoflush)  # what the host doesn't want sent yet isn't
        await host.commit()
    assert await rows(memory, "SELECT count(*) FROM memory.events WHERE kind = 'note'") == [(1,)]


# What is done again


@pytest.mark.slow
async def test_deadlock_with_the_host_costs_our_call_nothing(memory: Memory, host: AsyncSession) -> None:
    """Ours waits first, so it is ours that Postgres ends; it is done again when the host is through."""
    for user in ("mia", "jonas"):
        await memory.observe("Tea.", **ADA, user_id=user)
    await host.execute(sql("SET LOCAL deadlock_timeout = '20s'"))
    await host.execute(sql(LOCK), {"owner": "u:jonas"})
    tried = list[int]()

    async def both(unit: Session) -> None:
        tried.append(1)
        for owner in ("u:mia", "u:jonas"):
            await unit.execute(sql(LOCK), {"owner": owner})

    ours = asyncio.ensure_future(memory.database.write(both, principal=SERVICE))
    await are_waiting(memory, 1)
    await ended(host.execute(sql(LOCK), {"owner": "u:mia"}))
    await host.commit()
    await ended(ours)
    assert len(tried) == 2


async def _fails(unit: Session, code: str, tried: list[int]) -> None:
    tried.append(1)
    await unit.execute(sql("INSERT INTO memory.agents (agent_id) VALUES ('half')"))
    await unit.execute(sql(f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{code}'; END $$"))


@pytest.mark.parametrize(("code", "times"), [("40P01", 6), ("40001", 6), ("55P03", 1), ("23505", 1)])
async def test_what_others_were_in_the_way_of_is_tried_five_times_more(memory: Memory, code: str, times: int) -> None:
    tried = list[int]()
    with pytest.raises(DatabaseError, match=code):
        await memory.database.write(lambda unit: _fails(unit, code, tried), principal=SERVICE)
    assert len(tried) == times
    assert await memory.admin.agents() == []


async def test_transaction_of_the_host_is_never_done_again(memory: Memory, host: AsyncSession) -> None:
    tried = list[int]()
    with pytest.raises(DBAPIError):
        await memory.database.write(lambda unit: _fails(unit, "40P01", tried), host)
    assert len(tried) == 1


async def test_generator_of_messages_is_read_once_though_the_call_is_repeated(memory: Memory) -> None:
    await rows(memory, "CREATE SEQUENCE public.tries")
    await rows(
        memory,
        "CREATE FUNCTION public.trip() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN"
        " IF nextval('public.tries') = 1 THEN RAISE EXCEPTION 'no' USING ERRCODE = '40P01'; END IF; RETURN NEW; END $$",
    )
    await rows(
        memory, "CREATE TRIGGER trip BEFORE INSERT ON memory.messages FOR EACH ROW EXECUTE FUNCTION public.trip()"
    )
    added = await memory.add((message(n=n) for n in (1, 2)), **MIA, conversation_id="s")
    assert added.accepted == 2
    await rows(memory, "DROP TRIGGER trip ON memory.messages")
    await rows(memory, "DROP FUNCTION public.trip")
    await rows(memory, "DROP SEQUENCE public.tries")


# All at once


@pytest.mark.slow
async def test_everything_at_once_ends_without_an_error(memory: Memory, database_url: str) -> None:
    """Three users of two groups, whose scopes lead to each other, under every call that takes out or sets aside."""
    users, groups = ["mia", "jonas", "elin"], ["crew", "club"]
    for user in users:
        for group in groups:
            await say(
                memory,
                f"We {user} {group} paint the pier.",
                user=user,
                conversation=f"{user}{group}",
                group_ids=[group],
            )
    for _ in range(2):
        for (scope_id,) in await rows(memory, "SELECT scope_id FROM memory.scopes ORDER BY 1"):
            await memory.scopes.consolidate(**ADA, scope_id=f"s{scope_id}")
        await memory.scopes.propagate(**ADA)
    observations = [
        f"o{scope}-{seq}" for scope, seq in await rows(memory, "SELECT scope_id, seq FROM memory.observations")
    ]

    async def one(n: int) -> None:
        user, group, observation = users[n % 3], groups[n % 2], observations[n % len(observations)]
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: memory.observations.quarantine(observation, **ADA, user_id=user),
            lambda: memory.observations.unquarantine(observation, **ADA, user_id=user),
            lambda: memory.observations.mark(observation, **ADA, user_id=user, private=True),
            lambda: memory.groups.remove_member(group, user, **ADA),
            lambda: memory.groups.add_member(group, user, **ADA),
            lambda: memory.forget(observation, **ADA, wait=False),
            lambda: memory.forget(Selection(user_id=user), **ADA, wait=False),
            lambda: memory.people.merge(**ADA, user_id=f"anon{n}", into_user_id=user),
            lambda: memory.holds.place(**ADA, user_id=user),
            lambda: memory.holds.release(1, **ADA),
            lambda: memory.observe(f"We keep {n}.", **ADA, user_id=user, group_id=group),
            lambda: memory.add(
                [message(n=n)], **ADA, user_id=user, conversation_id=f"{user}{group}", group_ids=[group]
            ),
            lambda: memory.scopes.propagate(**ADA),
        ]
        with suppress(NotFoundError, HeldError, InputError, VersionError, StaleError, BusyError):
            await calls[n % len(calls)]()

    await ended(*(one(n) for n in range(78)))


async def test_whole_agent_is_forgotten_though_others_go_on_adding(memory: Memory) -> None:
    """Its conversations, scopes and foreign keys are waited for in the order of everybody, so none waits for the other."""
    stop = asyncio.Event()

    async def go_on(user: str) -> None:
        n = 0
        while not stop.is_set():
            n += 1
            conversation, groups = f"{user}{n % 5}", [f"g{n % 3}"]
            await memory.add([message(n=n)], **ADA, user_id=user, conversation_id=conversation, group_ids=groups)
            await memory.observe(f"{user} {n}", **ADA, user_id=user)

    adding = [asyncio.ensure_future(go_on(user)) for user in ("mia", "jonas", "elin")]
    async with asyncio.timeout(SECONDS):
        for n in range(3):
            await memory.observe(f"Now {n}.", **MIA)
            await memory.forget(Selection(everything=True), **ADA)
    stop.set()
    await ended(*adding)
    await memory.forget(Selection(everything=True), **ADA)
    assert await rows(memory, "SELECT 1 FROM memory.conversations UNION ALL SELECT 1 FROM memory.scopes") == []


@pytest.mark.parametrize("is_new", [False, True])
async def test_what_is_added_when_the_whole_agent_is_forgotten_goes_too(
    memory: Memory, host: AsyncSession, is_new: bool
) -> None:
    """It waits for who has added before it, though it could not see what they add to."""
    await memory.observe("Likes tea.", **ADA, user_id="jonas" if is_new else "mia")
    await memory.observe("Likes rye bread.", **MIA, session=host)
    await memory.add([message("Hello.")], **MIA, conversation_id="s", group_ids=["crew"], session=host)
    erasing = asyncio.create_task(memory.forget(Selection(everything=True), **ADA))
    await are_waiting(memory, 1)
    await host.commit()
    await ended(erasing)
    assert await rows(memory, "SELECT 1 FROM memory.conversations UNION ALL SELECT 1 FROM memory.scopes") == []


async def test_what_is_added_while_the_whole_agent_is_forgotten_is_kept(memory: Memory, host: AsyncSession) -> None:
    """Who adds to what goes waits, and then begins anew."""
    await memory.observe("Likes tea.", **MIA)
    await memory.add([message("Hello.")], **MIA, conversation_id="s", group_ids=["crew"])
    await memory.forget(Selection(everything=True), **ADA, session=host)
    observing = asyncio.create_task(memory.observe("Likes rye bread.", **MIA))
    adding = asyncio.create_task(memory.add([message("Good morning.")], **MIA, conversation_id="s", group_ids=["crew"]))
    await are_waiting(memory, 2)
    await host.commit()
    kept, added = await ended(observing, adding)
    assert [o.id for o in await memory.observations.list(**MIA)] == [kept.id]
    assert added.accepted == 1
    assert [m.content for m in await memory.conversations.messages(**MIA)] == ["Good morning."]


# What is read, and what is locked then


@pytest.mark.parametrize("claimed", [False, True])
async def test_propagation_is_loaded_first_and_locks_briefly(memory: Memory, claimed: bool) -> None:
    for group in ("crew", "club"):
        await memory.groups.create(group, **ADA)
        for user in ("mia", "jonas"):
            await memory.groups.add_member(group, user, **ADA)
    for n in range(4):
        mine = await memory.observe(f"The dock opens at {n}.", **MIA)
    await memory.scopes.consolidate(**ADA, scope_id=mine.scope.id)
    settings, scopes = memory.settings, ScopeRepository
    async with memory.database.transaction(principal=SERVICE) as unit:
        held = await scopes(unit).claim_due("ada", FAR, timedelta(minutes=1), "propagate_at") if claimed else None
    with statements(memory) as seen:
        async with memory.database.transaction(principal=SERVICE) as unit:
            if held is not None:
                loaded = await propagation.load_claimed(unit, *held[:2], settings, memory.now(), "due")
            else:
                args = unit, "ada", 1, mine.scope.key, settings, memory.now(), "asked"
                _, loaded = await propagation.load(*args)
    assert loaded is not None
    assert len(loaded.offers) == 8
    locks = [n for n, one in enumerate(seen) if "FOR NO KEY UPDATE" in one or "UPDATE memory.scopes" in one]
    assert len(seen) - locks[0] == 3  # the lock or the lease, older runs, the new one
    assert locks[0] >= 8


LOWER = SETTINGS.model_copy(update={"formation_min_messages": 1, "formation_messages": 1, "consolidation_threshold": 1})


async def are_due(memory: Memory) -> list[int]:
    """How many conversations and scopes."""
    due = "SELECT count(*) FROM memory.{} WHERE due_at <= now()"
    return [(await rows(memory, due.format(table)))[0][0] for table in ("conversations", "scopes")]


@pytest.mark.slow
async def test_lease_is_kept_while_what_was_claimed_is_loaded(database_url: str, host: AsyncSession) -> None:
    """What takes longer to load than a lease lasts would be taken over again and again, and never be done."""
    lease = "SELECT lease_until FROM memory.scopes WHERE propagate_at IS NOT NULL"
    async with Memory(database_url, Parrot(), SETTINGS.model_copy(update={"lease_seconds": 1.0})) as memory:
        await say(memory, "The dock opens at seven.", group_ids=["crew"])
        await memory.groups.add_member("crew", "jonas", **ADA)
        (mine,) = await memory.observations.list(**MIA)
        await memory.scopes.consolidate(**ADA, scope_id=mine.scope.id)
        await host.execute(sql("LOCK TABLE memory.judged IN ACCESS EXCLUSIVE MODE"))
        work = await memory.work.claim("propagation")
        assert work is not None
        ((claimed,),) = await rows(memory, lease)
        loading = asyncio.ensure_future(work())
        await are_waiting(memory, 1)
        await rows(memory, f"SELECT pg_sleep_until('{claimed}'::timestamptz + interval '0.1 s')")
        ((kept,),) = await rows(memory, lease)
        assert kept > claimed
        assert await memory.work.claim("propagation") is None
        await host.rollback()
        (done,) = await ended(loading)
        assert (done.failed, len(done.propagated)) == ({}, 1)


async def test_catching_up_takes_as_many_statements_for_many_as_for_one(database_url: str) -> None:
    counts = []
    async with Memory(database_url, Parrot(), SETTINGS) as memory, Memory(database_url, Parrot(), LOWER) as other:
        for last in (1, 30):
            for n in range(last):
                await memory.add([message(n=n)], **ADA, user_id=f"u{n}", conversation_id=f"{last}-{n}")
                await memory.observe("Tea.", agent_id=f"a{last}-{n}", user_id="mia")
            with statements(other) as seen:
                await other.work.catch_up()
            counts.append(len(seen))
        assert await are_due(memory) == [31, 31]
        assert list(await other.admin.verify()) == []
    assert counts[0] == counts[1]


async def test_catching_up_goes_on_where_a_batch_ended(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "CAUGHT_UP_AT_ONCE", 2)
    async with Memory(database_url, Parrot(), SETTINGS) as memory, Memory(database_url, Parrot(), LOWER) as other:
        for n in range(5):
            await memory.add([message(n=n)], **ADA, user_id=f"u{n}", conversation_id=f"c{n}")
            await memory.observe("Tea.", **ADA, user_id=f"u{n}")
        await other.work.catch_up()
        assert await are_due(memory) == [5, 5]


async def test_end_of_a_quarantine_of_what_is_forgotten_meanwhile(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between finding it and locking anything there is a moment."""
    await say(memory, "The dock opens at seven.")
    (mine,) = await memory.observations.list(**MIA)
    await memory.observations.quarantine(mine.id, **MIA)
    module: Any = import_module("memory_sql.lifecycle.corrections.quarantine")
    found = module.find

    async def find_and_forget(*given: Any, **named: Any) -> Any:
        seen = await found(*given, **named)
        await memory.forget(mine.id, **ADA, wait=False)
        return seen

    monkeypatch.setattr(module, "find", find_and_forget)
    with pytest.raises(NotFoundError):
        await memory.observations.unquarantine(mine.id, **MIA)


VECTOR = """
    INSERT INTO memory.observation_vectors (agent_key, scope_id, seq, model, bits)
    SELECT agent_key, scope_id, seq, 'x:8', B'10101010' FROM memory.observations
"""
STANDINGS = (
    "SELECT o.standing, v.standing FROM memory.observations o JOIN memory.observation_vectors v USING (scope_id, seq)"
)


async def test_a_vector_and_a_change_of_state_see_each_other(memory: Memory, host: AsyncSession) -> None:
    """Each waits for the other, whichever comes first: a vector has the standing of its observation."""
    tea = await memory.observe("Tea.", **MIA)
    await enter(host, SERVICE)
    await host.execute(sql(VECTOR))
    setting_aside = asyncio.ensure_future(memory.observations.quarantine(tea.id, **MIA))
    await are_waiting(memory, 1)
    await host.commit()
    await ended(setting_aside)
    assert await rows(memory, STANDINGS) == [("quarantined", "quarantined")]
    await rows(memory, "DELETE FROM memory.observation_vectors")
    await memory.observations.unquarantine(tea.id, **MIA, session=host)
    storing = asyncio.ensure_future(rows(memory, VECTOR))
    await are_waiting(memory, 1)
    await host.commit()
    await ended(storing)
    assert await rows(memory, STANDINGS) == [("active", "active")]
