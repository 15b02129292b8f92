"""What a text absorbed long ago is compared with what lies near it, and gives way as in a consolidation."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.consolidation.comparing import ComparedPair, RecheckTask
from memory_sql.consolidation.recheck import WINDOWS
from memory_sql.db.repositories.scopes import ScopeRepository
from memory_sql.errors import StaleError, UnavailableError
from memory_sql.llm import Request
from memory_sql.memory import Memory
from memory_sql.worker import Worker
from tests.database import rows, statements
from tests.factories import MONDAY, Clock, message
from tests.fakes import Scripted, extracted
from tests.integration.test_consolidation_replacing import MIA, answer, known, observed, shown, statuses

LYON, OSLO = "Mia lives in Lyon with a cat.", "Mia moved from Lyon to Oslo."
OTHERS = (
    "The harbour opens at seven.",
    "Tea is in the blue tin.",
    "Ole plays the tuba.",
    "The stove needs birch wood.",
)
ADA: dict[str, Any] = {"agent_id": "ada"}
Said = Callable[[ComparedPair], dict[str, Any] | None]


@pytest.fixture
def settings() -> Settings:
    return Settings(llm="offline", formation_min_messages=1, recheck=True)


def pairs_of(request: Request[Any]) -> Sequence[ComparedPair]:
    assert isinstance(request.material, RecheckTask)
    return request.material.pairs


def saying(says: Said) -> Callable[[Request[Any]], str]:
    """What is said of each pair; None: unrelated."""

    def reply(request: Request[Any]) -> str:
        told = [(n, says(pair)) for n, pair in enumerate(pairs_of(request), 1)]
        return json.dumps({"pairs": [{"pair": n, **one} for n, one in told if one is not None]})

    return reply


def contradicts(was: str, still: str | None = None, *, of: str = LYON) -> Callable[[Request[Any]], str]:
    given = {"is": "contradicts", "was": was, "now": "in Oslo", "still": still}
    return saying(lambda pair: given if pair.earlier.content == of else None)


UNRELATED = saying(lambda _: None)


async def absorbed(memory: Memory, llm: Scripted, *texts: str, day: int = 0, **more: Any) -> int:
    """Mia's scope, whose text takes these in and names nothing."""
    scope = await observed(memory, *texts, day=day, **more)
    llm.then(json.dumps({"text": " ".join((await told(memory)).split() + list(texts))}))
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope}")
    return scope


async def told(memory: Memory) -> str:
    found = await memory.scopes.list(**MIA)
    return " ".join(one.consolidation or "" for one in found)


async def lived(memory: Memory, llm: Scripted) -> int:
    """Both were absorbed, by two versions."""
    await absorbed(memory, llm, LYON, *OTHERS)
    return await absorbed(memory, llm, OSLO, day=3)


async def rechecked(memory: Memory, llm: Scripted, scope: int, *replies: Any) -> Any:
    llm.then(*replies)
    (done,) = (await memory.work.recheck(agent_id="ada", scope_id=f"s{scope}")).rechecked
    return done


async def verified(memory: Memory) -> None:
    assert list(await memory.admin.verify()) == []


async def test_what_no_longer_holds_gives_way_and_comes_back(memory: Memory, llm: Scripted) -> None:
    scope = await lived(memory, llm)
    before = await told(memory)
    done = await rechecked(memory, llm, scope, contradicts("lives in Lyon"))
    assert (done.contradictions, done.superseded, done.held, done.version) == (1, 1, 0, 3)
    assert await statuses(memory) == {1: 6}
    assert await told(memory) == before  # the text waits for its next version
    (version, *_) = await memory.scopes.history(**MIA)
    assert (version.reason, version.contradictions[0].was, version.run_id) == ("recheck", "lives in Lyon", done.run_id)
    await verified(memory)
    undone = await memory.scopes.undo(agent_id="ada", scope_id=f"s{scope}")
    assert (undone.reinstated, await statuses(memory), await told(memory)) == (1, {}, before)
    assert not any(item.pending for item in await memory.observations.list(**MIA))
    await verified(memory)


async def test_the_next_text_is_told_what_was_overtaken(memory: Memory, llm: Scripted) -> None:
    scope = await lived(memory, llm)
    await rechecked(memory, llm, scope, contradicts("lives in Lyon"))
    await absorbed(memory, llm, "Mia keeps bees.", day=5)
    assert [(how, item.text) for how, item in shown(llm.requests[-1]).ended] == [("overtaken", LYON)]
    assert "was overtaken" in llm.requests[-1].prompt
    await absorbed(memory, llm, "Mia keeps ducks.", day=6)
    assert shown(llm.requests[-1]).ended == ()  # once


async def test_a_pair_is_asked_once_until_one_is_said_again(memory: Memory, llm: Scripted) -> None:
    scope = await lived(memory, llm)
    first = await rechecked(memory, llm, scope, UNRELATED)
    assert (first.pairs > 0, first.version, first.run_id is not None) == (True, None, True)
    again = await rechecked(memory, llm, scope)  # no reply: no call
    assert (again.pairs, again.run_id) == (0, None)
    await observed(memory, LYON, day=9)
    last = await rechecked(memory, llm, scope, contradicts("moved from Lyon to Oslo", of=OSLO))
    assert (last.pairs, last.superseded, await statuses(memory)) == (first.pairs, 1, {6: 1})
    await verified(memory)


async def test_what_a_person_brings_back_is_not_asked_again(memory: Memory, llm: Scripted) -> None:
    scope = await lived(memory, llm)
    await rechecked(memory, llm, scope, contradicts("lives in Lyon"))
    await memory.observations.reinstate(f"o{scope}-1", **MIA)
    assert (await rechecked(memory, llm, scope)).run_id is None


async def test_with_fewer_than_five_nothing_is_asked(memory: Memory, llm: Scripted) -> None:
    await absorbed(memory, llm, LYON, *OTHERS[:2])
    scope = await absorbed(memory, llm, OSLO, day=3)
    assert await rechecked(memory, llm, scope) == (await rechecked(memory, llm, scope))
    assert await rows(memory, "SELECT kind FROM memory.runs WHERE kind = 'recheck'") == []


async def test_with_nothing_near_nothing_is_asked(memory: Memory, llm: Scripted) -> None:
    scope = await absorbed(memory, llm, "Bread.", "Glue.", "Snow.", "Chess.", "Moss.", "Ink.")
    assert (await rechecked(memory, llm, scope)).run_id is None


@pytest.mark.slow
async def test_where_a_part_still_holds_a_person_decides(memory: Memory, llm: Scripted) -> None:
    scope = await lived(memory, llm)
    done = await rechecked(memory, llm, scope, contradicts("lives in Lyon", "Mia has a cat."))
    assert (done.superseded, done.held, await statuses(memory)) == (0, 1, {})
    await verified(memory)
    (review,) = await memory.work.reviews(**ADA)
    assert (review.kind, review.instead_of, review.says, review.still) == (
        "contradiction",
        LYON,
        OSLO,
        "Mia has a cat.",
    )
    await memory.work.decide(review.id, **ADA, accept=True, actor="desk")
    assert await statuses(memory) == {1: 6}
    await verified(memory)
    await absorbed(memory, llm, "Mia keeps bees.", day=5)
    assert [item.text for _, item in shown(llm.requests[-1]).ended] == [LYON]
    await verified(memory)


async def test_what_a_person_decided_meanwhile_goes_to_review(memory: Memory, llm: Scripted) -> None:
    scope = await lived(memory, llm)

    async def confirming(request: Request[Any]) -> str:
        await memory.observations.confirm(f"o{scope}-1", **MIA)
        return contradicts("lives in Lyon")(request)

    done = await rechecked(memory, llm, scope, confirming)
    assert (done.superseded, done.held) == (0, 1)
    assert len(await memory.work.reviews(**ADA)) == 1
    await verified(memory)


MEANWHILE: dict[str, dict[str, Any]] = {  # the newer one, as it is stored
    "guessed": {"confidence": 0.3},
    "faded": {"importance": 0.1, "category": "fact"},
}


async def lose_the_newer(memory: Memory, clock: Clock, why: str, newer: str) -> None:
    if why == "disputed":
        await memory.observations.dispute(newer, **MIA)
        return
    clock.goes_on(days=100)
    done = await memory.work.maintain()
    assert (done.expired, done.archived) == ((1, 0) if why == "guessed" else (0, 1))


@pytest.fixture
async def fading(database_url: str, llm: Scripted, clock: Clock) -> AsyncIterator[Memory]:
    days: dict[str, Any] = {"lifecycle": True, "archival": True, "archival_days": 60, "speculative_days": 30}
    own = Settings(llm="offline", formation_min_messages=1, recheck=True, classification="off", **days)
    async with Memory(database_url, llm, own, clock=clock) as memory:
        yield memory


@pytest.mark.parametrize("why", ["guessed", "faded", "disputed"])
@pytest.mark.parametrize("by", ["recheck", "consolidation"])
async def test_nothing_gives_way_to_what_went_out_of_use_meanwhile(
    fading: Memory, llm: Scripted, clock: Clock, by: str, why: str
) -> None:
    scope = await absorbed(fading, llm, LYON, *OTHERS, confidence=0.9, importance=0.9)
    newer = {"day": 3, **MEANWHILE.get(why, {})}
    await (absorbed(fading, llm, OSLO, **newer) if by == "recheck" else observed(fading, OSLO, **newer))

    async def meanwhile(request: Request[Any]) -> str:
        await lose_the_newer(fading, clock, why, f"o{scope}-6")
        if by == "recheck":
            return contradicts("lives in Lyon")(request)
        return answer(OSLO, [("n1", f"k{known(request).index(LYON) + 1}", "lives in Lyon", "in Oslo")])

    llm.then(meanwhile)
    if by == "recheck":
        superseded = (await fading.work.recheck(**ADA, scope_id=f"s{scope}")).rechecked[0].superseded
    else:
        superseded = (await fading.scopes.consolidate(**ADA, scope_id=f"s{scope}")).superseded
    assert (superseded, await statuses(fading)) == (0, {})
    reviews = await fading.work.reviews(**ADA)
    assert [review.instead_of for review in reviews] == ([LYON] if why == "disputed" else [])
    assert (await fading.search("where does Mia live", **MIA)).results[0].observation.content == LYON
    await verified(fading)


async def test_what_was_forgotten_meanwhile_is_not_stored(memory: Memory, llm: Scripted) -> None:
    scope = await lived(memory, llm)

    async def forgetting(request: Request[Any]) -> str:
        llm.then(json.dumps({"text": " ".join(OTHERS)}))  # of the text without it
        await memory.forget(f"o{scope}-1", **ADA)
        return contradicts("lives in Lyon")(request)

    with pytest.raises(StaleError):
        await rechecked(memory, llm, scope, forgetting)
    assert await rows(memory, "SELECT seq FROM memory.rechecked") == []
    assert await statuses(memory) == {}
    await verified(memory)


async def test_of_a_forgotten_observation_nothing_stays(memory: Memory, llm: Scripted) -> None:
    scope = await lived(memory, llm)
    await rechecked(memory, llm, scope, contradicts("lives in Lyon"))
    assert (1,) in await rows(memory, "SELECT seq FROM memory.rechecked")
    llm.then(json.dumps({"text": " ".join(OTHERS)}))
    await memory.forget(f"o{scope}-1", **ADA)
    assert (1,) not in await rows(memory, "SELECT seq FROM memory.rechecked")
    kept = "SELECT count(*) FROM memory.consolidations c, memory.runs r WHERE c::text || r::text LIKE '%lives in Lyon%'"
    assert await rows(memory, kept) == [(0,)]
    await verified(memory)


async def test_it_is_on_the_ledger_with_its_cost(memory: Memory, llm: Scripted) -> None:
    scope = await lived(memory, llm)
    await rechecked(memory, llm, scope, UNRELATED)
    ledger = (
        "SELECT state, model, input_tokens, output_tokens, calls, observations FROM memory.runs WHERE kind = 'recheck'"
    )
    assert await rows(memory, ledger) == [("empty", "scripted", 100, 10, 1, 0)]
    assert await rows(memory, "SELECT answer, held, seen FROM memory.runs WHERE kind = 'recheck'") == [(None, None, {})]


async def test_a_failure_is_recorded_and_costs_nothing(memory: Memory, llm: Scripted) -> None:
    scope = await lived(memory, llm)
    with pytest.raises(UnavailableError):
        await rechecked(memory, llm, scope, UnavailableError("rate_limit", "later"))
    ended = "SELECT state, error_code FROM memory.runs WHERE kind = 'recheck'"
    assert await rows(memory, ended) == [("failed", "rate_limit")]
    assert await rows(memory, "SELECT lease_until, recheck_at FROM memory.scopes") == [(None, None)]
    assert (await rechecked(memory, llm, scope, contradicts("lives in Lyon"))).superseded == 1


async def test_cancelled_work_gives_the_lease_back_and_is_done_again(memory: Memory, llm: Scripted) -> None:
    scope = await lived(memory, llm)
    asked = asyncio.Event()

    async def hanging(_: Request[Any]) -> str:
        asked.set()
        await asyncio.sleep(60)
        return ""

    task = asyncio.create_task(rechecked(memory, llm, scope, hanging))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await rows(memory, "SELECT lease_until FROM memory.scopes") == [(None,)]
    await verified(memory)
    assert (await rechecked(memory, llm, scope, contradicts("lives in Lyon"))).superseded == 1
    await verified(memory)


async def test_an_answer_that_names_no_pair_of_these_counts_as_refused(memory: Memory, llm: Scripted) -> None:
    scope = await lived(memory, llm)
    wrong = [{"pair": 99, "is": "same"}, {"pair": "x"}, "no", {"pair": 1, "is": "maybe"}]
    done = await rechecked(memory, llm, scope, json.dumps({"pairs": wrong}))
    assert (done.contradictions, done.same, done.version) == (0, 0, None)
    assert await rows(memory, "SELECT refused FROM memory.runs WHERE kind = 'recheck'") == [
        ({"unknown_observation": 1},)
    ]


async def test_what_the_later_one_repeats_is_lent_its_evidence(memory: Memory, llm: Scripted) -> None:
    await absorbed(memory, llm, "Mia keeps bees behind the boathouse.", *OTHERS)
    scope = await absorbed(memory, llm, "Mia keeps bees.", day=2)
    done = await rechecked(
        memory, llm, scope, saying(lambda pair: {"is": "same"} if "bees" in pair.later.content else None)
    )
    assert (done.same, await statuses(memory)) == (1, {6: 1})
    evidence = "SELECT seq, count(*) FROM memory.evidence GROUP BY seq HAVING count(*) > 1"
    assert await rows(memory, evidence) == [(1, 2)]
    await verified(memory)
    await memory.scopes.undo(agent_id="ada", scope_id=f"s{scope}")
    assert await statuses(memory) == {}
    await verified(memory)


async def test_more_pairs_than_fit_are_asked_in_turn(memory: Memory, llm: Scripted) -> None:
    scope = await absorbed(memory, llm, *(f"The boat number {n} is red." for n in range(12)))
    asked = list[int]()

    def counting(request: Request[Any]) -> str:
        asked.append(len(pairs_of(request)))
        return UNRELATED(request)

    llm.may_run_out = True
    done = await rechecked(memory, llm, scope, *[counting] * 9)
    llm.replies.clear()
    stored = await rows(memory, "SELECT count(*), count(DISTINCT (seq, other_seq)) FROM memory.rechecked")
    assert stored == [(done.pairs, done.pairs)]
    assert done.pairs == sum(asked)


ALONE = "Bread Glue Snow Chess Moss Ink Pears Rope Salt Tin Wool Zinc Amber".split()  # nothing lies near any of them


async def far_on(memory: Memory, llm: Scripted) -> int:
    """A scope in which the first pair stands behind thirteen observations."""
    await absorbed(memory, llm, *(f"{one}." for one in ALONE), LYON)
    return await absorbed(memory, llm, OSLO, day=3)


async def test_a_piece_looks_through_ten_lots_and_what_is_due_goes_on_from_there(
    database_url: str, llm: Scripted
) -> None:
    own = Settings(llm="offline", formation_min_messages=1, recheck=True, recheck_newest=1)
    async with Memory(database_url, llm, own) as memory:
        await far_on(memory, llm)
        await rows(memory, "UPDATE memory.scopes SET recheck_at = now()")
        with statements(memory) as sent:
            (first,) = (await memory.work.recheck()).rechecked
        assert sum("memory.neighbours" in one for one in sent) == WINDOWS
        assert (first.pairs, first.more, first.run_id, first.model) == (0, True, None, None)
        reached = "SELECT rechecked_seq, recheck_at <= now(), lease_until FROM memory.scopes"
        assert await rows(memory, reached) == [(WINDOWS, True, None)]
        assert await rows(memory, "SELECT 1 FROM memory.runs WHERE kind = 'recheck'") == []
        llm.then(contradicts("lives in Lyon"))
        (second,) = (await memory.work.recheck()).rechecked
        assert (second.superseded, await statuses(memory)) == (1, {14: 15})
        await verified(memory)


async def test_there_is_no_more_after_all_that_was_asked_for(database_url: str, llm: Scripted) -> None:
    """Though the first call had no room for all: what is left when it has ended has been compared meanwhile."""
    own = Settings(llm="offline", formation_min_messages=1, recheck_newest=4)
    async with Memory(database_url, llm, own) as memory:
        await absorbed(memory, llm, LYON, *OTHERS)
        scope = await absorbed(memory, llm, OSLO, day=3)
        done = await rechecked(memory, llm, scope, UNRELATED)
        assert (done.pairs > 0, done.more) == (True, False)
        assert await rows(memory, "SELECT rechecked_seq FROM memory.scopes") == [(6,)]


@pytest.mark.slow
async def test_who_asks_gets_all_pieces_at_once(database_url: str, llm: Scripted) -> None:
    own = Settings(llm="offline", formation_min_messages=1, recheck_newest=1)
    async with Memory(database_url, llm, own) as memory:
        scope = await far_on(memory, llm)
        with statements(memory) as sent:
            done = await rechecked(memory, llm, scope, contradicts("lives in Lyon"))
        assert (done.superseded, done.run_id is not None, done.model) == (1, True, "scripted")
        assert sum("memory.neighbours" in one for one in sent) > WINDOWS
        assert await rows(memory, "SELECT lease_until, recheck_at FROM memory.scopes") == [(None, None)]
        await absorbed(memory, llm, *(f"{one} again." for one in ("Hemp", "Jute", "Lime")), day=4)
        assert (await rechecked(memory, llm, scope)).more is False
        await verified(memory)


@pytest.mark.slow
async def test_what_changes_before_the_lease_is_looked_through_once_more(
    database_url: str, llm: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the scope's row locked, so no further than any other piece."""
    own = Settings(llm="offline", formation_min_messages=1, recheck_newest=1)
    async with Memory(database_url, llm, own) as memory:
        scope = await far_on(memory, llm)
        claim, counts = ScopeRepository.claim, list[int]()

        async def changing(self: ScopeRepository, *given: Any) -> Any:
            counts.append(sum("memory.neighbours" in one for one in sent))
            if len(counts) == 1:
                await rows(memory, "UPDATE memory.scopes SET epoch = epoch + 1")
            return await claim(self, *given)

        monkeypatch.setattr(ScopeRepository, "claim", changing)
        with statements(memory) as sent:
            await rechecked(memory, llm, scope, contradicts("lives in Lyon"))
        assert counts[:2] == [WINDOWS, WINDOWS * 2 + 4]  # of which four before the second lease
        assert await statuses(memory) == {14: 15}


async def formed(memory: Memory, llm: Scripted, n: int) -> None:
    """One conversation is formed, and Mia's text takes in what it stored."""
    text = f"Boat number {n} is red."
    await memory.add(**MIA, conversation_id=f"c{n}", messages=[message(f"My boat number {n} is red.", n=1)])
    llm.then(extracted((text, "individual")))
    await memory.conversations.form(**ADA, conversation_id=f"c{n}")
    llm.then(json.dumps({"text": f"{await told(memory)} {text}"}))
    (scope,) = await memory.scopes.list(**MIA)
    await memory.scopes.consolidate(**ADA, scope_id=scope.ref.id)


async def due(memory: Memory) -> list[Any]:
    return [at for (at,) in await rows(memory, "SELECT recheck_at FROM memory.scopes WHERE recheck_at IS NOT NULL")]


@pytest.mark.slow
async def test_due_after_three_formations_and_ten_minutes_apart(timed: Memory, llm: Scripted, clock: Clock) -> None:
    await absorbed(timed, llm, *OTHERS)
    for n in (1, 2):
        await formed(timed, llm, n)
        assert await due(timed) == []
    await formed(timed, llm, 3)
    assert await due(timed) == [clock.now]
    llm.then(UNRELATED)
    (done,) = (await timed.work.recheck()).rechecked
    assert (done.pairs > 0, await due(timed)) == (True, [])
    clock.goes_on(minutes=4)
    for n in (4, 5, 6):
        await formed(timed, llm, n)
    assert await due(timed) == [MONDAY + timedelta(minutes=10)]
    assert (await timed.work.recheck()).rechecked == ()
    clock.goes_on(minutes=6)
    llm.then(UNRELATED)
    assert len((await timed.run_due()).rechecked) == 1


async def work_of(memory: Memory) -> list[tuple[str, str, int]]:
    found = await memory.work.waiting()
    return sorted((one.work, one.state, one.waiting) for one in found if one.work == "recheck" or "prog" in one.state)


async def why_late(memory: Memory) -> list[tuple[str, str, str | None]]:
    found = await memory.work.late(hours=0)
    return [(one.work, one.reason, one.error_code) for one in found if one.work == "recheck"]


async def test_what_waits_tells_of_rechecks(memory: Memory, llm: Scripted) -> None:
    scope = await lived(memory, llm)
    assert (await work_of(memory), await why_late(memory)) == ([], [])
    await rows(memory, "UPDATE memory.scopes SET recheck_at = now()")
    assert await work_of(memory) == [("recheck", "due", 1)]
    assert await why_late(memory) == [("recheck", "unclaimed", None)]
    backlog = await memory.work.backlog()
    assert (backlog.due_rechecks, backlog.due_propagations, backlog.retrying) == (1, 1, 0)
    seen = list[Any]()

    async def looking(_: Request[Any]) -> str:
        seen.extend((await work_of(memory), await why_late(memory)))
        raise UnavailableError("rate_limit", "later")

    llm.then(looking)
    await memory.work.recheck()
    assert seen == [[("recheck", "in_progress", 1)], [("recheck", "in_progress", None)]]
    assert await work_of(memory) == [("recheck", "retrying", 1)]
    assert await why_late(memory) == [("recheck", "failing", "rate_limit")]
    backlog = await memory.work.backlog(**ADA)
    assert (backlog.due_rechecks, backlog.due_propagations, backlog.retrying) == (0, 1, 1)
    await rechecked(memory, llm, scope, UNRELATED)
    await rows(memory, "UPDATE memory.scopes SET recheck_at = now() + interval '5 minutes'")
    assert await work_of(memory) == [("recheck", "not_due", 1)]
    assert await why_late(memory) == [("recheck", "not_due", None)]
    assert (await memory.work.backlog()).retrying == 0


async def test_where_the_setting_is_off_by_now_nothing_is_due(memory: Memory, llm: Scripted) -> None:
    await lived(memory, llm)
    await rows(memory, "UPDATE memory.scopes SET recheck_at = now()")
    await memory.configure(**ADA, recheck=False)
    assert (await work_of(memory), await why_late(memory)) == ([], [])
    assert (await memory.work.backlog()).due_rechecks == (await memory.work.backlog(**ADA)).due_rechecks == 0
    (done,) = (await memory.work.recheck()).rechecked  # no reply: no call
    assert (done.run_id, await due(memory)) == (None, [])
    assert await rows(memory, "SELECT lease_until FROM memory.scopes") == [(None,)]


@pytest.mark.slow
async def test_off_by_default(memory: Memory, llm: Scripted, database_url: str) -> None:
    assert not Settings(llm="offline").recheck
    async with Memory(database_url, llm, Settings(llm="offline", formation_min_messages=1)) as other:
        for n in range(1, 6):
            await formed(other, llm, n)
        assert await due(other) == []
        with statements(other) as sent:
            await formed(other, llm, 6)
        assert [one for one in sent if "rechecked_seq" in one] == []


async def test_a_worker_rechecks_what_is_due(memory: Memory, llm: Scripted) -> None:
    await absorbed(memory, llm, *OTHERS)
    for n in (1, 2, 3):
        await formed(memory, llm, n)
    llm.then(UNRELATED)
    await Worker(memory).run_once()
    assert await rows(memory, "SELECT state FROM memory.runs WHERE kind = 'recheck'") == [("empty",)]


async def test_due_work_that_fails_waits(timed: Memory, llm: Scripted, clock: Clock) -> None:
    await absorbed(timed, llm, *OTHERS)
    for n in (1, 2, 3):
        await formed(timed, llm, n)
    llm.then(UnavailableError("rate_limit", "later"))
    done = await timed.work.recheck()
    assert (done.rechecked, list(done.failed)) == ((), ["recheck of scope s1 of agent ada"])
    assert await due(timed) == [clock.now + timedelta(minutes=10)]
    clock.goes_on(minutes=10)
    llm.then("nonsense")
    assert len((await timed.work.recheck()).failed) == 1
    assert await due(timed) == [clock.now + timedelta(days=1)]
    assert await rows(timed, "SELECT count(*) FROM memory.rechecked") == [(0,)]
    await verified(timed)
