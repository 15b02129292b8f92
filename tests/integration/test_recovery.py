"""What happens when the model fails, and what a person can then do."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel
from sqlalchemy import func, select

from memory_sql.config import Settings
from memory_sql.consolidation.task import ConsolidationTask
from memory_sql.db import Session
from memory_sql.db.direct import ask
from memory_sql.domain.results import DeadRun, RunDueResult
from memory_sql.domain.selection import Selection
from memory_sql.errors import (
    AnswerError,
    BudgetError,
    BusyError,
    InputError,
    NotFoundError,
    StaleError,
    UnavailableError,
)
from memory_sql.formation import formation
from memory_sql.formation.dialogue import Extracted
from memory_sql.formation.window import Loaded
from memory_sql.llm import Answer, Request, Usage
from memory_sql.llm.answers import read
from memory_sql.memory import Memory
from tests.database import TOLD, rows
from tests.factories import Clock, conversation, message
from tests.fakes import HOPELESS, Parrot, Scripted, extracted
from tests.scoping import set_scopes
from tests.sizes import few_in_every_run

T = TypeVar("T", bound=BaseModel | str)

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
HERE: dict[str, Any] = {**MIA, "conversation_id": "s"}
SESSION: dict[str, Any] = {"agent_id": "ada", "conversation_id": "s"}


@pytest.mark.slow
async def test_outage_of_66_seconds_loses_nothing_and_needs_nobody(timed: Memory, llm: Scripted, clock: Clock) -> None:
    started = clock.now
    for n in range(5):
        await timed.add([message("Actually, I prefer tea.")], **{**HERE, "conversation_id": f"s{n}"})
    while clock.now < started + timedelta(seconds=66):
        llm.replies = [UnavailableError("connection", "down")] * 5
        await timed.run_due()
        clock.goes_on(seconds=1)
    llm.replies = [extracted(("Tea.", "individual"))] * 5
    formed: set[str] = set()
    while clock.now < started + timedelta(seconds=66 * 3):
        formed |= {result.conversation_id for result in (await timed.run_due()).formed}
        clock.goes_on(seconds=1)
    assert formed == {f"s{n}" for n in range(5)}
    assert await timed.work.dead() == []
    assert await rows(timed, "SELECT failures, errors FROM memory.conversations") == [(0, 0)] * 5


async def test_unusable_answers_are_given_up_after_three_and_hold_up_nobody(
    timed: Memory, llm: Scripted, clock: Clock
) -> None:
    await timed.add([message("Actually, I prefer tea.")], **{**HERE, "conversation_id": "poisoned"})
    await timed.add([message("Actually, I prefer tea.")], **HERE)

    def answer(request: Request[Any]) -> str:
        return "nonsense" if len(llm.requests) != 4 else extracted(("Tea.", "individual"))

    llm.then(*[answer] * 10)  # the poisoned one is asked about three times each time
    assert [r.conversation_id for r in (await timed.run_due()).formed] == ["s"]
    for _ in range(9):
        clock.goes_on(minutes=20)
        await timed.run_due()
    (dead,) = await timed.work.dead(agent_id="ada")
    assert (dead.kind, dead.conversation_id, dead.error_code) == ("formation", "poisoned", "not_json")
    assert len(llm.requests) == 10
    await timed.add(conversation(60, first=2), **{**HERE, "conversation_id": "poisoned"})
    assert await timed.run_due() == RunDueResult()


@pytest.mark.parametrize("work", ["formation", "consolidation"])
async def test_work_whose_run_a_forgetting_has_ended_is_not_given_up(
    database_url: str, settings: Settings, clock: Clock, work: str
) -> None:
    """By itself dead, by the ledger failed: it would wait for nobody."""
    parrot, once = Parrot(), settings.model_copy(update={"max_errors": 1, "consolidation_threshold": 1})
    async with Memory(database_url, parrot, once, clock=clock) as memory:
        if work == "formation":
            await memory.add([message("I prefer tea.", n=1), message("Rain.", n=2), message("Sun.", n=3)], **HERE)
            forgotten = Selection(conversation_id="s", message_id="m2")
        else:
            forgotten = Selection(observation_id=(await memory.observe("Mia likes rain.", **MIA)).id)
            await memory.run_due()
            await memory.observe("Mia likes tea.", **MIA)

        async def fails() -> None:
            parrot.failing = AnswerError("nonsense")
            await memory.forget(forgotten, agent_id="ada", wait=False)

        parrot.meanwhile = fails
        assert len((await memory.run_due()).failed) == 1
        assert (await memory.work.dead(), await memory.admin.verify()) == ([], [])
        parrot.failing = None
        clock.goes_on(minutes=20)
        done = await memory.run_due()
        assert len(done.formed if work == "formation" else done.consolidated) == 1


async def test_dead_run_may_be_tried_again(timed: Memory, llm: Scripted, clock: Clock) -> None:
    await poison(timed, llm, clock)
    (dead,) = await timed.work.dead()
    await timed.work.retry(agent_id="ada", run_id=dead.run_id)
    assert await timed.work.dead() == []
    llm.then(extracted(("Tea.", "individual")))
    assert len((await timed.run_due()).formed[0].observations) == 1
    with pytest.raises(NotFoundError):
        await timed.work.retry(agent_id="ada", run_id=dead.run_id)


@pytest.mark.slow
async def test_conversation_that_was_given_up_is_tried_again_after_a_day(
    timed: Memory, llm: Scripted, clock: Clock
) -> None:
    """Once a day, then as seldom as it has waited, a month at most; it needs nobody."""
    await poison(timed, llm, clock)
    asked = len(llm.requests)
    llm.then(*["nonsense"] * 20)
    for _ in range(24 * 9):
        clock.goes_on(hours=1)
        await timed.run_due()
    tries = (len(llm.requests) - asked) / 3  # each asks three times
    assert tries == 4  # after 1, 2, 4 and 8 days
    llm.replies = [extracted(("Tea.", "individual"))]
    clock.goes_on(days=31)
    assert len((await timed.run_due()).formed[0].observations) == 1
    assert (await timed.work.dead(), list(await timed.admin.verify())) == ([], [])


async def test_what_waits_longer_than_a_day_says_why(timed: Memory, llm: Scripted, clock: Clock) -> None:
    """By the database's clock a message has come just now: the one of this process is ahead."""
    await poison(timed, llm, clock)
    await timed.add([message("I prefer tea.")], **{**HERE, "conversation_id": "later"})
    llm.then(UnavailableError("connection", "down"))
    assert len((await timed.run_due()).failed) == 1
    assert await timed.work.late() == []
    clock.goes_on(days=800)
    late = {one.conversation_id: one for one in await timed.work.late()}
    assert {name: (one.work, one.reason, one.error_code) for name, one in late.items()} == {
        "s": ("formation", "given_up", "not_json"),
        "later": ("formation", "failing", "connection"),
    }
    assert (await timed.work.backlog()).late == 1
    assert list(await timed.work.late(agent_id="eve")) == []
    assert len(await timed.work.late(limit=1)) == 1


async def test_scope_that_nobody_consolidates_is_late(timed: Memory, clock: Clock) -> None:
    await timed.configure(agent_id="ada", consolidation_threshold=1)
    scope = (await timed.observe("Mia likes tea.", **MIA)).scope.id
    clock.goes_on(days=800)
    (late,) = await timed.work.late()
    assert (late.work, late.scope_id, late.conversation_id) == ("consolidation", scope, None)
    assert late.reason in ("unclaimed", "not_due")  # by which of the clocks
    assert (await timed.work.backlog()).late == 1


async def test_excluded_conversation_that_was_given_up_stays_so(timed: Memory, llm: Scripted, clock: Clock) -> None:
    await poison(timed, llm, clock)
    await timed.conversations.exclude(**SESSION)
    clock.goes_on(days=2)
    assert await timed.run_due() == RunDueResult()
    assert list(await timed.admin.verify()) == []


async def test_discarded_messages_are_skipped_and_later_ones_formed(timed: Memory, llm: Scripted, clock: Clock) -> None:
    await poison(timed, llm, clock)
    (dead,) = await timed.work.dead()
    await timed.work.discard(agent_id="ada", run_id=dead.run_id)
    await timed.add([message("Actually, I prefer coffee.", n=9)], **HERE)
    llm.then(extracted(("Coffee.", "individual")))
    assert [o.content for o in (await timed.run_due()).formed[0].observations] == ["Coffee."]
    assert await rows(timed, "SELECT state FROM memory.runs ORDER BY run_id DESC LIMIT 2") == [
        ("succeeded",),
        ("discarded",),
    ]


async def poison(memory: Memory, llm: Scripted, clock: Clock) -> None:
    await memory.add([message("Actually, I prefer tea.")], **HERE)
    llm.then(*HOPELESS * 3)
    for _ in range(3):
        await memory.run_due()
        clock.goes_on(minutes=20)


def material(request: Request[Any]) -> ConsolidationTask:
    assert isinstance(request.material, ConsolidationTask)
    return request.material


class Choking:
    """Makes a line of each observation, and nothing of a batch with poison in it."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.cured = False

    async def generate(self, request: Request[T]) -> Answer[T]:
        task = request.material
        assert isinstance(task, ConsolidationTask)
        texts = [item.text for item in task.observations]
        self.sizes.append(len(texts))
        bad = not self.cured and any("poison" in text for text in texts)
        raw = " " if bad else "\n".join(filter(None, [task.current, *texts]))
        return Answer(read(raw, request.output), raw, Usage("choking", 100, 10))


@pytest.fixture
def choking() -> Choking:
    return Choking()


@pytest.fixture
async def strained(database_url: str, choking: Choking, clock: Clock) -> AsyncIterator[Memory]:
    settings = Settings(llm="offline", consolidation_threshold=1, deduplicate="newest")
    async with Memory(database_url, choking, settings, clock=clock) as memory:
        yield memory


async def learn(memory: Memory, count: int, *poisoned: int) -> int:
    """The id of the scope that has learnt so many things, of which these, by number, can't be consolidated."""
    for n in range(1, count + 1):
        observed = await memory.observe(f"{'poison' if n in poisoned else 'fact'} {n}", **MIA)
    return observed.scope.key


async def days(memory: Memory, clock: Clock, count: int) -> None:
    for _ in range(count):
        await memory.run_due()
        clock.goes_on(minutes=20)


@pytest.mark.slow
@pytest.mark.parametrize("bad", few_in_every_run([1, 2, 17, 31, 32], [1, 17]))
async def test_one_bad_observation_is_found_among_many_in_few_calls_and_holds_up_none(
    strained: Memory, choking: Choking, clock: Clock, bad: int
) -> None:
    """Rule 11: the whole batch, then halves down to one, then twice more, then all the rest."""
    await learn(strained, 32, bad)
    await days(strained, clock, 12)
    (dead,) = await strained.work.dead()
    assert (dead.kind, dead.error_code) == ("consolidation", "empty")
    assert len(choking.sizes) <= 1 + 5 + 3 + 1
    (scope,) = await strained.scopes.list(**MIA)
    assert (scope.pending, len((scope.consolidation or "").splitlines())) == (0, 31)
    assert "poison" not in (scope.consolidation or "")
    assert await rows(strained, "SELECT failures, errors, suspects FROM memory.scopes") == [(0, 0, 0)]
    choking.sizes.clear()
    await learn(strained, 10)
    await strained.run_due()
    assert choking.sizes == [10]


@pytest.mark.slow
async def test_observation_that_was_given_up_is_tried_again_after_a_day(
    strained: Memory, choking: Choking, clock: Clock
) -> None:
    await learn(strained, 4, 3)
    await days(strained, clock, 9)
    assert len(await strained.work.dead()) == 1
    choking.sizes.clear()
    clock.goes_on(days=1)
    await days(strained, clock, 6)
    assert choking.sizes == [1, 1, 1]
    assert len(await strained.work.dead()) == 1
    assert list(await strained.admin.verify()) == []


async def test_search_for_a_bad_observation_goes_on_when_the_scope_is_due_again(
    database_url: str, choking: Choking, clock: Clock
) -> None:
    settings = Settings(consolidation_threshold=4, deduplicate="newest")
    async with Memory(database_url, choking, settings, clock=clock) as memory:
        await learn(memory, 4, 4)
        await days(memory, clock, 9)
        assert choking.sizes == [4, 2, 1, 1]
        assert [o.content for o in await memory.observations.list(**MIA) if o.pending] == ["poison 4"]
        assert list(await memory.admin.verify()) == []
        await learn(memory, 3)
        await days(memory, clock, 9)
        assert len(await memory.work.dead()) == 1
        assert choking.sizes[4:] == [1, 1]


async def test_batch_is_cut_also_where_one_error_is_enough_to_give_up(
    database_url: str, choking: Choking, clock: Clock
) -> None:
    settings = Settings(llm="offline", consolidation_threshold=1, max_errors=1)
    async with Memory(database_url, choking, settings, clock=clock) as memory:
        await learn(memory, 4, 3)
        await days(memory, clock, 6)
        (scope,) = await memory.scopes.list(**MIA)
        assert (scope.consolidation or "").splitlines() == ["fact 1", "fact 2", "fact 4"]
        assert len(await memory.work.dead()) == 1
        assert choking.sizes == [4, 2, 1, 1]


@pytest.mark.slow
async def test_several_bad_observations_are_found_one_after_another(
    strained: Memory, choking: Choking, clock: Clock
) -> None:
    await learn(strained, 30, 3, 4, 19, 30)
    await days(strained, clock, 40)
    assert len(await strained.work.dead()) == 4
    assert (await strained.work.backlog()).dead == 4
    (scope,) = await strained.scopes.list(**MIA)
    assert (scope.consolidation or "").splitlines() == [f"fact {n}" for n in range(1, 31) if n not in (3, 4, 19, 30)]
    assert list(await strained.admin.verify()) == []


async def test_outage_says_nothing_about_a_batch(timed: Memory, llm: Scripted, clock: Clock) -> None:
    await learn(timed, 10)
    llm.then("", *[UnavailableError("timeout", "no answer")] * 9, "", "")
    await days(timed, clock, 10)
    assert await rows(timed, "SELECT suspects FROM memory.scopes") == [(10,)]
    assert await timed.work.dead() == []
    await days(timed, clock, 2)
    sizes = [len(material(request).observations) for request in llm.requests]
    assert sizes == [10, *[5] * 10, 2]
    assert await timed.work.dead() == []


async def test_batch_that_was_asked_for_is_halved_as_well_but_never_given_up(
    strained: Memory, choking: Choking
) -> None:
    scope_id = await learn(strained, 8, 3)
    for _ in range(9):
        with pytest.raises(AnswerError):
            await strained.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert choking.sizes == [8, 4, 2, 1, *[1] * 6]
    assert await strained.work.dead() == []
    assert [o.content for o in await strained.observations.list(**MIA) if o.pending][-1] == "poison 3"
    choking.cured = True
    assert (await strained.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")).absorbed == 6
    assert choking.sizes[-2:] == [1, 5]


async def test_batch_that_fails_by_chance_is_whole_again_after_its_parts(timed: Memory, llm: Scripted) -> None:
    scope_id = await learn(timed, 9)
    llm.then("", "Four.", "Six.", "Seven.", "Eight.", "Nine.")
    with pytest.raises(AnswerError):
        await timed.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert (await timed.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")).absorbed == 9
    assert [len(material(request).observations) for request in llm.requests] == [9, 4, 2, 1, 1, 1]
    assert await rows(timed, "SELECT suspects FROM memory.scopes") == [(0,)]


async def test_undo_forgets_what_was_suspected(strained: Memory, choking: Choking) -> None:
    scope_id = await learn(strained, 4)
    await strained.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await learn(strained, 4, 4)
    with pytest.raises(AnswerError):
        await strained.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await strained.scopes.undo(agent_id="ada", scope_id=f"s{scope_id}")
    choking.cured = True
    await strained.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert choking.sizes == [4, 4, 8]


async def given_up(memory: Memory, clock: Clock) -> DeadRun:
    await learn(memory, 10, 4)
    await days(memory, clock, 9)
    (dead,) = await memory.work.dead()
    return dead


async def test_observation_that_was_given_up_is_set_aside_and_said_so(strained: Memory, clock: Clock) -> None:
    dead = await given_up(strained, clock)
    assert "poison 4" not in [o.content for o in await strained.observations.list(**MIA)]
    assert "poison" not in str(await strained.context(**MIA))
    assert await rows(strained, "SELECT seq, run_id, detail FROM memory.events") == [
        (4, dead.run_id, {"from": "active", "to": "given_up"})
    ]
    assert await rows(strained, "SELECT from_seq, to_seq FROM memory.runs WHERE state = 'dead'") == [(3, 4)]


async def test_observation_that_was_given_up_may_be_tried_again(
    strained: Memory, choking: Choking, clock: Clock
) -> None:
    dead = await given_up(strained, clock)
    await strained.work.retry(agent_id="ada", run_id=dead.run_id)
    assert await strained.work.dead() == []
    assert "poison 4" in [o.content for o in await strained.observations.list(**MIA) if o.pending]
    choking.cured = True
    await strained.scopes.consolidate(agent_id="ada", scope_id=dead.scope_id or "")
    (scope,) = await strained.scopes.list(**MIA)
    assert (scope.pending, len((scope.consolidation or "").splitlines())) == (0, 10)
    assert list(await strained.admin.verify()) == []
    with pytest.raises(NotFoundError):
        await strained.work.retry(agent_id="ada", run_id=dead.run_id)


async def test_observation_that_was_given_up_may_be_left_where_it_is(strained: Memory, clock: Clock) -> None:
    dead = await given_up(strained, clock)
    await strained.work.discard(agent_id="ada", run_id=dead.run_id)
    assert await strained.work.dead() == []
    assert await rows(strained, "SELECT seq, status FROM memory.observation_states WHERE status <> 'active'") == [
        (4, "given_up")
    ]
    assert await rows(strained, "SELECT count(*) FROM memory.runs WHERE state = 'discarded'") == [(1,)]


async def test_observation_that_was_given_up_does_not_come_back_beside_its_like(strained: Memory, clock: Clock) -> None:
    """Rule 9: said again it stays set aside, but an import may have brought its like."""
    dead = await given_up(strained, clock)
    await strained.observe("poison 4", **MIA)
    assert "poison 4" not in [o.content for o in await strained.observations.list(**MIA)]
    await rows(
        strained,
        "INSERT INTO memory.observations"
        " (agent_key, scope_id, seq, content, observed_at, source_kind, content_hash, hash_version)"
        " SELECT agent_key, scope_id, 99, content, observed_at, 'import', content_hash, hash_version"
        " FROM memory.observations JOIN memory.observation_states USING (agent_key, scope_id, seq)"
        " WHERE status = 'given_up'",
    )
    with pytest.raises(InputError):
        await strained.work.retry(agent_id="ada", run_id=dead.run_id)
    assert await strained.work.dead() == [dead]
    await strained.work.discard(agent_id="ada", run_id=dead.run_id)


@pytest.mark.parametrize("days_later", [-9, 9])
async def test_value_of_a_fact_that_was_given_up_and_one_known_since(
    strained: Memory, choking: Choking, clock: Clock, days_later: int
) -> None:
    """The older one gives way to the newer one, whichever was given up."""
    poison = await strained.observe("Mia drinks poison.", **MIA, fact_key="drink", observed_at=clock())
    await days(strained, clock, 9)
    (dead,) = await strained.work.dead()
    since = clock() + timedelta(days=days_later - 9)
    tea = await strained.observe("Mia drinks tea.", **MIA, fact_key="drink", observed_at=since)
    await strained.run_due()
    await strained.work.retry(agent_id="ada", run_id=dead.run_id)
    newer, older = (tea, poison) if days_later > 0 else (poison, tea)
    assert [o.id for o in await strained.observations.list(**MIA)] == [newer.id]
    assert (await strained.observations.get(older.id, **MIA)).superseded_by == newer.id
    assert await strained.work.dead() == []
    choking.cured = True
    await days(strained, clock, 1)
    (scope,) = await strained.scopes.list(**MIA)
    assert (scope.pending, newer.content in (scope.consolidation or "")) == (0, True)
    assert list(await strained.admin.verify()) == []


async def test_what_was_archived_while_it_failed_is_not_given_up(timed: Memory, llm: Scripted, clock: Clock) -> None:
    await learn(timed, 1)
    await set_scopes(timed, consolidation_threshold=1)
    archive = (
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status)"
        " SELECT agent_key, scope_id, 1, 'archived' FROM memory.scopes"
    )

    async def archived(_: Request[Any]) -> str:
        await rows(timed, archive)
        return ""

    llm.then("", "", archived)
    await days(timed, clock, 3)
    assert await timed.work.dead() == []
    assert await rows(timed, "SELECT status FROM memory.observation_states") == [("archived",)]


@pytest.mark.slow
async def test_pauses_grow_to_ten_minutes(timed: Memory, llm: Scripted, clock: Clock) -> None:
    await timed.add([message("Actually, I prefer tea.")], **HERE)
    llm.replies = [UnavailableError("timeout", "no answer")] * 100
    pauses = []
    for _ in range(10):
        before = clock.now
        while not (await timed.run_due()).failed:
            clock.goes_on(seconds=5)
        pauses.append((clock.now - before).total_seconds())
    assert pauses == [0, 5, 10, 20, 40, 80, 160, 320, 600, 600]


async def test_work_waits_for_the_next_day_when_the_tokens_are_used_up(
    database_url: str, llm: Scripted, clock: Clock
) -> None:
    async with Memory(database_url, llm, Settings(daily_tokens=110), clock=clock) as memory:
        await memory.add([message("Actually, I prefer tea.")], **HERE)
        llm.then(extracted(("Tea.", "individual")))
        await memory.run_due()
        await memory.add([message("Actually, I prefer coffee.", n=2)], **HERE)
        with pytest.raises(BudgetError):
            await memory.conversations.form(**SESSION)
        assert "daily tokens" in (await memory.run_due()).failed["conversation s of agent ada"]
        assert (await memory.run_due()).failed == {}
        clock.goes_on(days=1)
        llm.then(extracted(("Coffee.", "individual")))
        assert len((await memory.run_due()).formed[0].observations) == 1


@pytest.mark.slow
async def test_long_call_keeps_its_short_lease(database_url: str, llm: Scripted) -> None:
    async with Memory(database_url, llm, Settings(lease_seconds=0.3)) as memory:
        await memory.add(conversation(4), **HERE)

        async def slow(_request: Request[Any]) -> str:
            for _ in range(4):
                await asyncio.sleep(0.25)
                with pytest.raises(BusyError):
                    await memory.conversations.form(**SESSION)
            return extracted(("Tea.", "individual"))

        llm.then(slow)
        assert len((await memory.conversations.form(**SESSION)).observations) == 1


async def test_excluded_conversation_is_never_formed(memory: Memory, llm: Scripted) -> None:
    await memory.add([message("Actually, I prefer tea.")], **HERE, excluded=True)
    await memory.add(conversation(60, first=2), **HERE)
    assert await memory.run_due() == RunDueResult()
    assert (await memory.conversations.form(**SESSION)).run_ids == ()
    await memory.conversations.exclude(**SESSION, excluded=False)
    await memory.add([message("Actually, I prefer coffee.", n=99)], **HERE)
    llm.then(extracted(("Coffee.", "individual")))
    await memory.conversations.form(**SESSION)
    (request,) = llm.requests
    assert "tea" not in request.prompt
    assert "coffee" in request.prompt


async def test_exclusion_stops_what_is_under_way(memory: Memory, llm: Scripted) -> None:
    await memory.add(conversation(4), **HERE)

    async def excluded(_: Request[Any]) -> str:
        await memory.conversations.exclude(**SESSION)
        return extracted(("Tea.", "individual"))

    llm.then(excluded)
    with pytest.raises(StaleError):
        await memory.conversations.form(**SESSION)
    assert await memory.observations.list(**MIA) == []
    with pytest.raises(NotFoundError):
        await memory.conversations.exclude(agent_id="ada", conversation_id="never")


async def text_of(memory: Memory) -> tuple[Any, ...]:
    (row,) = await rows(memory, f"SELECT content, version, done_seq, due_at IS NOT NULL FROM {TOLD}")  # noqa: S608
    return row


async def test_undo_brings_back_the_text_before_and_what_was_absorbed(memory: Memory, llm: Scripted) -> None:
    scope_id = (await memory.observe("one", **MIA)).scope.key
    llm.then("One.")
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    for n in range(10):
        await memory.observe(f"fact {n}", **MIA)
    llm.then("One and ten.")
    await memory.run_due()
    undone = await memory.scopes.undo(agent_id="ada", scope_id=f"s{scope_id}")
    assert (undone.version, undone.content) == (3, "One.")
    assert await text_of(memory) == ("One.", 3, 1, False)
    assert len([o for o in await memory.observations.list(**MIA) if o.pending]) == 10
    await memory.observe("news", **MIA)
    assert (await text_of(memory))[3]
    undone = await memory.scopes.undo(agent_id="ada", scope_id=f"s{scope_id}")
    assert (undone.version, undone.content) == (4, None)
    assert await text_of(memory) == (None, 4, 0, False)
    with pytest.raises(NotFoundError):
        await memory.scopes.undo(agent_id="ada", scope_id=f"s{scope_id}")
    llm.then("All of it.")
    done = await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert (done.version, done.absorbed) == (5, 12)
    assert [
        (v.version, v.base, v.from_seq, v.to_seq, v.live, v.reason) for v in await memory.scopes.history(**MIA)
    ] == [
        (5, 4, 0, 12, True, "asked"),
        (3, 1, 1, 1, False, "undo"),
        (2, 1, 1, 11, False, "threshold"),
        (1, 0, 0, 1, False, "asked"),
    ]


async def test_undo_keeps_rows_that_a_version_passed_over_in_order(memory: Memory, llm: Scripted) -> None:
    """Rule 5: extras below the new watermark wait again, what lies above it waits anyway."""
    for fact in ("one", "two", "three"):
        scope_id = (await memory.observe(fact, **MIA)).scope.key
    archive = (
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status) SELECT agent_key, scope_id, 2, :status"
        " FROM memory.scopes ON CONFLICT (agent_key, scope_id, seq) DO UPDATE SET status = :status"
    )
    await rows(memory, archive, status="archived")
    llm.then("One, three.")
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await rows(memory, archive, status="active")
    llm.then("One, two, three.")
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await memory.scopes.undo(agent_id="ada", scope_id=f"s{scope_id}")
    assert [o.content for o in await memory.observations.list(**MIA) if o.pending] == ["two"]
    await memory.scopes.undo(agent_id="ada", scope_id=f"s{scope_id}")
    assert [o.content for o in await memory.observations.list(**MIA) if o.pending] == ["three", "two", "one"]
    repend = "SELECT seq FROM memory.observation_states WHERE repend"
    assert await rows(memory, repend) == []


async def test_undo_during_a_consolidation_makes_it_void(memory: Memory, llm: Scripted) -> None:
    scope_id = (await memory.observe("one", **MIA)).scope.key
    llm.then("One.")
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await memory.observe("two", **MIA)

    async def undone(_: Request[Any]) -> str:
        await memory.scopes.undo(agent_id="ada", scope_id=f"s{scope_id}")
        return "One and two."

    llm.then(undone)
    with pytest.raises(StaleError):
        await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert await text_of(memory) == (None, 2, 0, False)


async def test_wrong_answer_counts_against_the_work_and_no_answer_does_not(
    timed: Memory, llm: Scripted, clock: Clock
) -> None:
    await timed.add([message("Actually, I prefer tea.")], **HERE)
    llm.then(*HOPELESS, UnavailableError("timeout", "no answer"), UnavailableError("timeout", "no answer"))
    for _ in range(3):
        assert (await timed.run_due()).failed
        clock.goes_on(minutes=20)
    assert await rows(timed, "SELECT failures, errors FROM memory.conversations") == [(2, 1)]


async def test_what_somebody_asked_for_is_not_given_up(memory: Memory, llm: Scripted) -> None:
    await memory.add(conversation(4), **HERE)
    llm.then(*HOPELESS * 5, extracted(("Tea.", "individual")))
    for _ in range(5):
        with pytest.raises(AnswerError):
            await memory.conversations.form(**SESSION)
    assert await memory.work.dead() == []
    assert len((await memory.conversations.form(**SESSION)).observations) == 1


async def test_error_of_a_hosts_own_model_is_the_models_and_stops_nothing(
    timed: Memory, llm: Scripted, clock: Clock
) -> None:
    for session in ("one", "two"):
        await timed.add([message("Actually, I prefer tea.")], **{**HERE, "conversation_id": session})
    llm.then(ValueError("with a secret"), extracted(("Tea.", "individual")))
    result = await timed.run_due()
    assert len(result.formed) == len(result.failed) == 1
    assert "secret" not in str(result.failed)
    assert await rows(timed, "SELECT error FROM memory.runs WHERE state = 'failed'") == [
        ("the language model raised ValueError",)
    ]


async def test_rest_of_a_window_is_due_by_the_rule_of_add(database_url: str, llm: Scripted, clock: Clock) -> None:
    async with Memory(database_url, llm, Settings(formation_window_messages=2), clock=clock) as memory:
        said = [message(f"Word {n}", n=n) for n in range(2)] + [message("Actually, I prefer tea.", n=9)]
        await memory.add(said, **HERE)
        llm.then(extracted(), UnavailableError("timeout", "no answer"))
        await memory.run_due()
        assert await rows(memory, "SELECT unformed_messages, due_reason FROM memory.conversations") == [(1, "retry")]
        clock.goes_on(minutes=1)
        llm.then(extracted(("Tea.", "individual")))
        assert len((await memory.run_due()).formed[0].observations) == 1


@pytest.mark.slow
@pytest.mark.parametrize("text", ["无。", "长" * 10_000])
async def test_guard_holds_for_scripts_without_spaces(memory: Memory, llm: Scripted, text: str) -> None:
    scope_id = (await memory.observe("很长的文字。", **MIA)).scope.key
    llm.then("很长的文字。" * 100, text, text)
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await memory.observe("二", **MIA)
    with pytest.raises(AnswerError):
        await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")


@pytest.mark.slow
async def test_answer_outlives_a_database_that_fails_for_a_moment(
    memory: Memory, llm: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the model's answer and its being kept: it is paid for once."""
    await memory.add(conversation(4), **HERE)
    kept = []

    async def keep(session: Session, loaded: Loaded, answered: Extracted, settings: Settings) -> None:
        kept.append(1)
        if len(kept) < 3:
            await ask(session, select(func.pg_terminate_backend(func.pg_backend_pid())), {})
        await real(session, loaded, answered, settings)

    real = formation.keep
    monkeypatch.setattr(formation, "keep", keep)
    llm.then(extracted(("Tea.", "individual")))
    formed = await memory.conversations.form(**SESSION)
    assert [o.content for o in formed.observations] == ["Tea."]
    assert (len(kept), len(llm.requests)) == (3, 1)
    assert await rows(memory, "SELECT state FROM memory.runs") == [("succeeded",)]


async def test_overtaken_worker_does_not_try_to_keep_its_answer_again(memory: Memory, llm: Scripted) -> None:
    await memory.add(conversation(4), **HERE)

    async def overtaken(_: Request[Any]) -> str:
        await rows(memory, "UPDATE memory.runs SET fence = fence + 1")
        return extracted(("Tea.", "individual"))

    llm.then(overtaken)
    with pytest.raises(StaleError):
        async with asyncio.timeout(2):
            await memory.conversations.form(**SESSION)


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [0, 1])
async def test_two_workers_under_one_fence_store_once(memory: Memory, llm: Scripted, ahead: int) -> None:
    """A claim commits without waiting for the disk: a crash of the server can take it back, but not from the worker."""
    await memory.add([message("Actually, I prefer tea.")], **HERE)
    works = list[Any]()
    for _ in range(2):
        works.append(await memory.work.claim("formation"))
        await rows(memory, "UPDATE memory.conversations SET fence = 0, lease_until = NULL")
    await rows(memory, "UPDATE memory.conversations SET fence = 1, lease_until = now() + interval '1 minute'")
    asked, done = [asyncio.Event(), asyncio.Event()], asyncio.Event()

    def answer(n: int) -> Any:
        async def answered(_: Request[Any]) -> str:
            asked[n].set()
            await asked[1 - n].wait()  # so both runs have begun
            if n != ahead:
                await done.wait()
            return extracted(("Prefers tea.", "individual", [1]))

        return answered

    async def run(n: int) -> RunDueResult:
        result: RunDueResult = await works[n]()
        done.set()
        return result

    rest = [extracted(("Has a boat.", "individual", [1]))] * (1 - ahead)  # which the one that is ahead goes on with
    llm.then(answer(0), answer(1), *rest)
    first = asyncio.create_task(run(0))
    await asked[0].wait()
    await memory.add([message("I have a boat.", n=2)], **HERE)
    results = await asyncio.gather(first, run(1))
    assert [len(result.formed) for result in results] == [1 - ahead, ahead]
    assert [len(result.failed) for result in results] == [ahead, 1 - ahead]
    assert llm.windows == [1, 2, *[1] * len(rest)]
    stored = await rows(memory, "SELECT content FROM memory.observations ORDER BY seq")
    assert stored == [("Prefers tea.",), *[("Has a boat.",)] * len(rest)]
    assert (await memory.conversations.form(**SESSION)).messages == 0
    assert list(await memory.admin.verify()) == []


async def test_failures_are_told_by_agent(memory: Memory, llm: Scripted) -> None:
    """The same conversation id of two agents is two conversations."""
    for agent in ("ada", "bob"):
        await memory.add([message("Actually, I prefer tea.")], **{**HERE, "agent_id": agent})
    llm.then(*[UnavailableError("timeout", "no answer")] * 2)
    assert sorted((await memory.run_due()).failed) == ["conversation s of agent ada", "conversation s of agent bob"]


async def test_what_others_store_by_other_settings_is_due_by_ours_in_time(
    timed: Memory, database_url: str, llm: Scripted, clock: Clock
) -> None:
    """`run_due` looks for it at first, and as often as a worker: not each time, since that reads every scope."""
    assert await timed.run_due() == RunDueResult()
    patient = timed.settings.model_copy(update={"consolidation_threshold": 1000})
    async with Memory(database_url, llm, patient, clock=clock) as other:
        for n in range(timed.settings.consolidation_threshold):
            await other.observe(f"fact {n}", **MIA)
    assert await timed.run_due() == RunDueResult()
    clock.goes_on(minutes=timed.settings.maintenance_minutes)
    llm.then("Facts.")
    assert [one.version for one in (await timed.run_due()).consolidated] == [1]


async def test_settings_of_a_new_process_count_at_its_first_look(
    timed: Memory, database_url: str, llm: Scripted, clock: Clock
) -> None:
    await timed.observe("fact", **MIA)
    assert await timed.run_due() == RunDueResult()
    eager = timed.settings.model_copy(update={"consolidation_threshold": 1})
    llm.then("Facts.")
    async with Memory(database_url, llm, eager, clock=clock) as other:
        assert [one.version for one in (await other.run_due()).consolidated] == [1]
