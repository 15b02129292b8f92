"""The sweeps of the lifecycle: stages and archival, and what searches make of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from memory_sql.config import Settings
from memory_sql.db.principals import service
from memory_sql.domain.results import MaintainResult, Moved
from memory_sql.errors import InputError, NotFoundError, VersionError
from memory_sql.lifecycle.scores import Life, scores
from memory_sql.memory import Memory
from memory_sql.resources import sweeping
from tests.commands import memory_sql
from tests.database import rows, statements
from tests.factories import MONDAY, Clock
from tests.fakes import Scripted

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
JONAS: dict[str, Any] = {**ADA, "user_id": "jonas"}
DAY = MONDAY.date()
ON: dict[str, Any] = {"llm": "offline", "lifecycle": True, "archival": True, "classification": "off"}


@pytest.fixture
async def alive(database_url: str, llm: Scripted, clock: Clock) -> AsyncIterator[Memory]:
    """With stages and archival on, by the clock."""
    async with Memory(database_url, llm, Settings(**ON), clock=clock) as memory:
        yield memory
        assert await memory.admin.verify() == []


async def observed(memory: Memory, text: str, days: float = 0, **given: Any) -> str:
    """Said so many days before Monday."""
    whose = {**MIA, **given}
    return (await memory.observe(text, **whose, observed_at=MONDAY - timedelta(days=days))).id


async def used(memory: Memory, observation_id: str, times: int, day: date = DAY) -> None:
    scope, seq = observation_id.removeprefix("o").split("-")
    await rows(
        memory,
        "INSERT INTO memory.observation_retrievals (agent_key, scope_id, seq, day, surface, times)"
        " SELECT agent_key, :scope, :seq, :day, 'search', :times FROM memory.agents WHERE agent_id = 'ada'",
        scope=int(scope),
        seq=int(seq),
        day=day,
        times=times,
    )


async def stages(memory: Memory) -> dict[str, str]:
    """Of every observation whose stage isn't candidate."""
    found = await rows(
        memory,
        "SELECT 'o' || scope_id || '-' || seq, stage FROM memory.observation_states WHERE stage <> 'candidate'"
        " ORDER BY scope_id, seq",
    )
    return dict(found)


async def statuses(memory: Memory) -> dict[str, str]:
    found = await rows(memory, "SELECT observation_id, status FROM memory.v_observations ORDER BY scope_id, seq")
    return dict(found)


async def test_stages_follow_from_what_is_stored(alive: Memory) -> None:
    sure = await observed(alive, "Mia rows.", confidence=0.95)
    await observed(alive, "Mia swims.", confidence=0.8)
    confirmed = await observed(alive, "Mia runs.", confidence=0.95)
    disputed = await observed(alive, "Mia climbs.", confidence=0.95)
    stale = await observed(alive, "Mia might dive.", 90, confidence=0.3, importance=0.2)
    gone = await observed(alive, "Mia might fly.", 200, confidence=0.3, importance=0.1)
    used_much = await observed(alive, "Mia sails.", 200, confidence=0.5)
    await used(alive, used_much, 20)
    await alive.observations.confirm(confirmed, **MIA)
    await alive.observations.dispute(disputed, **MIA)
    done = await alive.work.maintain()
    assert (done.stages, done.complete, done.examples) == (6, True, ())
    assert await stages(alive) == {
        sure: "validated",
        confirmed: "active",
        disputed: "stale",
        stale: "stale",
        gone: "archived",
        used_much: "validated",
    }
    assert set((await statuses(alive)).values()) == {"active"}  # a stage is no status
    with statements(alive) as sent:
        assert await alive.work.maintain() == MaintainResult(messages=0, complete=True)
    assert sum("sweep_stages" in statement for statement in sent) == 1


async def test_off_nothing_is_swept_and_nothing_asked(memory: Memory) -> None:
    await observed(memory, "Mia might fly.", 300, confidence=0.1, importance=0.1, category="fact")
    with statements(memory) as sent:
        assert await memory.work.maintain() == MaintainResult(messages=0, complete=True)
    assert not [statement for statement in sent if "sweep" in statement]
    assert await rows(memory, "SELECT count(*) FROM memory.observation_states") == [(0,)]


async def test_dry_run_says_what_would_change_then_with_examples(alive: Memory, clock: Clock) -> None:
    ids = [await observed(alive, f"Boat {n}.", confidence=0.5, importance=0.1, category="fact") for n in range(25)]
    would = await alive.work.maintain(dry_run=True)
    assert (would.stages, would.archived, would.examples) == (0, 0, ())
    later = clock.now + timedelta(days=400)
    would = await alive.work.maintain(dry_run=True, at=later)
    assert would.model_dump(exclude={"examples"}) == MaintainResult(
        messages=0, stages=25, archived=25, tiers=25, dry_run=True, complete=True
    ).model_dump(exclude={"examples"})
    assert len(would.examples) == 60
    assert would.examples[0] == Moved(
        sweep="stages", agent_id="ada", observation_id=ids[0], was="candidate", becomes="archived"
    )
    assert would.examples[20] == Moved(
        sweep="archival", agent_id="ada", observation_id=ids[0], was="active", becomes="archived"
    )
    assert (await alive.work.maintain(dry_run=True, at=later, agent_id="bob")).stages == 0
    assert (await alive.work.maintain(dry_run=True, at=later, agent_id="ada", limit=7)).complete is False
    assert await rows(alive, "SELECT count(*) FROM memory.observation_states") == [(0,)]
    with pytest.raises(InputError, match="dry_run"):
        await alive.work.maintain(at=later)
    clock.now = later
    done = await alive.work.maintain()
    assert (done.stages, done.archived) == (25, 25)


@pytest.mark.parametrize(
    ("given", "goes"),
    [
        ({}, True),
        ({"importance": 0.3}, False),
        ({"importance": 0.29}, True),
        ({"importance": None}, False),
        ({"category": "correction"}, False),
        *(({"category": name}, False) for name in ("commitment", "preference", "decision", "principle", "procedure")),
        ({"category": None}, True),
    ],
)
async def test_archival_asks_for_all_its_conditions(
    alive: Memory, clock: Clock, given: dict[str, Any], goes: bool
) -> None:
    told: dict[str, Any] = {"importance": 0.1, "category": "fact", **given}
    one = await observed(alive, "Mia rows.", **told)
    clock.goes_on(days=89.9)
    assert (await alive.work.maintain()).archived == 0
    clock.goes_on(days=0.1)
    assert (await alive.work.maintain()).archived == int(goes)
    assert (await statuses(alive))[one] == ("archived" if goes else "active")


async def test_what_is_used_said_again_or_protected_isnt_archived(alive: Memory, clock: Clock) -> None:
    little: dict[str, Any] = {"importance": 0.1, "category": "fact"}
    thrice = await observed(alive, "Mia rows.", **little)
    twice = await observed(alive, "Mia swims.", **little)
    again = await observed(alive, "Mia runs.", **little)
    kept = await observed(alive, "Mia dives.", **little)
    older = await observed(alive, "Mia lives in Oslo.", **little, fact_key="home")
    newer = await observed(alive, "Mia lives in Bergen.", **little, fact_key="home")
    clock.goes_on(days=99)
    assert (await alive.observe("Mia runs.", **MIA, **little)).id == again
    clock.goes_on(days=1)
    for one, times in ((thrice, 3), (twice, 2)):
        await used(alive, one, times, clock.now.date())
    await alive.observations.mark(kept, **MIA, policy="protected")
    done = await alive.work.maintain()
    found = await statuses(alive)
    assert {one for one, status in found.items() if status == "archived"} == {twice}
    assert done.archived == 1
    assert (found[older], found[newer]) == ("superseded", "active")  # archived, the older one would stand again
    assert (found[again], found[kept], found[thrice]) == ("active", "active", "active")
    assert await rows(
        alive, "SELECT kind, actor, detail FROM memory.events WHERE kind = 'status' ORDER BY event_id DESC LIMIT 1"
    ) == [("status", None, {"from": "active", "to": "archived", "why": "age"})]


async def test_what_has_a_day_ends_with_it_however_often_maintenance_runs(alive: Memory, clock: Clock) -> None:
    """It would be archived for its age before, if archival came to it, and its day would pass unnoticed."""
    for agent in ("ada", "bob"):
        await observed(alive, "Mia will row.", importance=0.1, category="fact", agent_id=agent)
    await rows(alive, "UPDATE memory.observations SET until = cast(:day AS date) + 150", day=DAY)
    clock.goes_on(days=100)
    assert (await alive.work.maintain(agent_id="ada")).archived == 0
    clock.goes_on(days=52)
    for agent in ("ada", "bob"):
        done = await alive.work.maintain(agent_id=agent)
        assert (done.expired, done.archived) == (1, 0)
    told = await rows(alive, "SELECT detail->>'why' FROM memory.events WHERE kind = 'status'")
    assert told == [("expired",), ("expired",)]


async def test_held_superseded_and_set_aside_ones_are_left_alone(alive: Memory, clock: Clock) -> None:
    little: dict[str, Any] = {"importance": 0.1, "category": "fact", "confidence": 0.5}
    held, plain, theirs = [
        await observed(alive, f"Boat {n}.", **little, user_id=user) for n, user in enumerate(("mia", "mia", "jonas"))
    ]
    quarantined = await observed(alive, "Poisoned.", **little)
    hold = await alive.holds.place(**ADA, observation_id=held)
    of_person = await alive.holds.place(**JONAS)
    await alive.observations.quarantine(quarantined, **MIA)
    clock.goes_on(days=400)
    done = await alive.work.maintain()
    assert (done.stages, done.archived) == (1, 1)
    assert (await statuses(alive)) == {held: "active", plain: "archived", quarantined: "quarantined", theirs: "active"}
    assert await stages(alive) == {}  # what is archived starts anew should it come back
    await alive.holds.release(of_person.hold_id, **ADA)
    await alive.holds.release(hold.hold_id, **ADA)
    assert (await alive.work.maintain()).archived == 2


async def test_dry_run_says_what_would_expire(alive: Memory, clock: Clock) -> None:
    guess = await observed(alive, "Mia might fly.", confidence=0.3)
    later = clock.now + timedelta(days=31)
    would = await alive.work.maintain(dry_run=True, at=later)
    assert (would.expired, would.examples) == (
        1,
        (Moved(sweep="expiry", agent_id="ada", observation_id=guess, was="active", becomes="evicted"),),
    )
    assert (await alive.work.maintain(dry_run=True)).expired == 0
    assert await statuses(alive) == {guess: "active"}
    clock.now = later
    assert (await alive.work.maintain()).expired == 1
    assert await statuses(alive) == {guess: "evicted"}


async def test_what_is_said_again_is_a_candidate_again(alive: Memory, clock: Clock) -> None:
    gone = await observed(alive, "Mia flies.", importance=0.1, confidence=0.5, tags=["kept"])
    await alive.observations.mark(gone, **MIA, policy="ephemeral")
    await rows(alive, "UPDATE memory.observation_states SET stage = 'archived'")
    clock.goes_on(days=1)
    assert (await alive.observe("Mia flies.", **MIA)).id == gone
    assert await stages(alive) == {}


async def test_what_a_person_confirms_is_a_candidate_again_and_judged_anew(alive: Memory) -> None:
    again, unused, wrong = [
        await observed(alive, what, days=400, confidence=0.5) for what in ("Mia flies.", "Mia rows.", "Mia skis.")
    ]
    await alive.work.maintain()
    assert await stages(alive) == dict.fromkeys((again, unused, wrong), "archived")
    await used(alive, again, 20)
    for one in (again, unused):
        await alive.observations.confirm(one, **MIA)
    await alive.observations.dispute(wrong, **MIA)
    assert await stages(alive) == {wrong: "archived"}
    await alive.work.maintain()
    assert await stages(alive) == {again: "active", unused: "archived", wrong: "archived"}


async def test_feedback_counts_in_the_scores(alive: Memory) -> None:
    one = await observed(alive, "Mia flies.", confidence=0.95)
    before = (await alive.observations.get(one, **MIA, explain=True)).lifecycle
    for value in (1, 0, -1, 1, 1):
        await alive.observations.feedback(one, value, **MIA)
    after = (await alive.observations.get(one, **MIA, explain=True)).lifecycle
    assert before is not None
    assert after is not None
    assert after.heat - before.heat == pytest.approx(0.1 * 0.4 / 2)  # the mean is 0.4
    assert before.decay - after.decay == pytest.approx(0.1 * 0.4 / 2 + 0.15 * 0.02)


async def test_what_is_locked_waits_for_the_next_sweep(alive: Memory, clock: Clock) -> None:
    mine = await observed(alive, "Mia rows.", confidence=0.95)
    theirs = await observed(alive, "Jonas rows.", confidence=0.95, user_id="jonas")
    async with alive.database.transaction(principal=service(None)) as other:
        await other.execute(text("SELECT 1 FROM memory.scopes WHERE scope_id = 1 FOR NO KEY UPDATE"))
        assert (await alive.work.maintain()).stages == 1
        assert await stages(alive) == {theirs: "validated"}
    assert (await alive.work.maintain()).stages == 1
    assert await stages(alive) == {mine: "validated", theirs: "validated"}


async def test_sweeps_go_on_in_batches(alive: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "LOOKED_AT_ONCE", 3)
    for n in range(8):
        await observed(alive, f"Boat {n}.", confidence=0.95, user_id=f"u{n % 2}")
    await observed(alive, "Boat.", confidence=0.95, agent_id="bob")
    assert (await alive.work.maintain(limit=4)).complete is False
    assert len(await stages(alive)) == 4
    with statements(alive) as sent:
        done = await alive.work.maintain()
    assert (done.stages, done.complete) == (5, True)
    assert sum("sweep_stages" in statement for statement in sent) == 2  # of 3 and of 2: it went on where it had stopped
    assert (await alive.work.maintain(agent_id="bob")).stages == 0


async def test_policy_is_the_hosts_word_and_an_event(alive: Memory, clock: Clock) -> None:
    one = await observed(alive, "Mia might fly.", 400, confidence=0.3, importance=0.1)
    assert (await alive.work.maintain()).stages == 1
    before = await alive.observations.get(one, **MIA, explain=True)
    assert before.lifecycle is not None
    assert (before.lifecycle.stage, before.lifecycle.policy) == ("archived", "durable")
    marked = await alive.observations.mark(one, **MIA, policy="protected", actor="desk", reason="asked")
    assert (marked.observation.version, marked.retracted) == (before.version + 1, ())
    assert await rows(
        alive, "SELECT kind, actor, reason, detail FROM memory.events ORDER BY event_id DESC LIMIT 1"
    ) == [("policy", "desk", "asked", {"from": "durable", "to": "protected"})]
    await alive.work.maintain()
    after = await alive.observations.get(one, **MIA, explain=True)
    assert after.lifecycle is not None
    assert (after.lifecycle.stage, after.lifecycle.policy) == ("stale", "protected")
    both = await alive.observations.mark(one, **MIA, policy="ephemeral", private=True)
    assert both.observation.no_propagate
    assert await rows(alive, "SELECT policy FROM memory.observation_states") == [("ephemeral",)]
    nothing: dict[str, Any] = {}
    for wrong in (nothing, nothing | {"policy": "eternal"}):
        with pytest.raises(InputError):
            await alive.observations.mark(one, **MIA, **wrong)
    with pytest.raises(VersionError):
        await alive.observations.mark(one, **MIA, policy="durable", if_version=1)
    with pytest.raises(NotFoundError):
        await alive.observations.mark(one, **JONAS, policy="durable")


@pytest.mark.parametrize("in_text", [False, True])
async def test_what_takes_the_place_of_something_protected_is_protected(
    memory: Memory, llm: Scripted, in_text: bool
) -> None:
    """Whether it is all in one statement, or a text has to follow."""
    one, other = [(await memory.observe(f"Mia {does}.", **MIA)).id for does in ("rows", "swims")]
    await memory.observations.mark(one, **MIA, policy="protected")
    if in_text:
        llm.then("Mia rows and swims.")
        await memory.scopes.consolidate(**ADA, scope_id="s1")
    for old, policy in ((one, "protected"), (other, "durable")):
        new = await memory.observations.update(old, **MIA, text=f"Not {old}.")
        found = await memory.observations.get(new.id, **MIA, explain=True)
        assert found.lifecycle is not None
        assert (found.status, found.lifecycle.policy) == ("active", policy)
    assert await memory.admin.verify() == []


async def test_explained_is_how_alive_it_is(alive: Memory, clock: Clock) -> None:
    one = await observed(alive, "Mia sails.", 30, confidence=0.8, importance=0.6)
    await used(alive, one, 5)
    clock.now = MONDAY.replace(hour=0)  # when uses of a day count as made
    found = await alive.observations.get(one, **MIA, explain=True)
    assert found.lifecycle is not None
    alive_now = found.lifecycle
    expected = scores(Life(0.8, 0.6, 5, clock.now, MONDAY - timedelta(days=30)), clock.now)
    assert (alive_now.heat, alive_now.decay, alive_now.value) == pytest.approx(expected, abs=1e-9)
    assert (alive_now.stage, alive_now.uses, alive_now.last_used_at) == ("candidate", 5, clock.now)
    assert found.model_copy(update={"lifecycle": None}) == await alive.observations.get(one, **MIA)
    (row,) = await rows(alive, "SELECT stage, uses, status, heat, decay, value FROM memory.v_lifecycle")
    assert row[:3] == ("candidate", 5, "active")
    assert all(0 <= share <= 1 for share in row[3:])


async def found(memory: Memory, query: str = "lantern", **more: Any) -> list[str]:
    return [hit.observation.id for hit in (await memory.search(query, **MIA, **more)).results]


async def parts(memory: Memory, query: str = "lantern") -> dict[str, float]:
    """What the lifecycle is worth to each hit, as a share of its other points."""
    hits = (await memory.search(query, **MIA, explain=True, top_k=20)).results
    told = {hit.observation.id: hit.explanation.parts for hit in hits if hit.explanation is not None}
    return {
        one: round(by.get("lifecycle", 0) / sum(value for name, value in by.items() if name != "lifecycle"), 6)
        for one, by in told.items()
    }


async def in_every_stage(memory: Memory) -> dict[str, str]:
    """An observation of each stage, by it; `none` has no state."""
    made = {
        name: await observed(memory, f"The lantern {name}.")
        for name in ("none", "active", "validated", "candidate", "stale", "archived", "disputed", "gone")
    }
    for stage in ("active", "validated", "candidate", "stale", "archived"):
        await rows(
            memory,
            "INSERT INTO memory.observation_states (agent_key, scope_id, seq, stage)"
            " SELECT agent_key, scope_id, seq, :stage FROM memory.observations WHERE content = :content",
            stage=stage,
            content=f"The lantern {stage}.",
        )
    await memory.observations.dispute(made["disputed"], **MIA)
    await rows(
        memory,
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status)"
        " SELECT agent_key, scope_id, seq, 'archived' FROM memory.observations WHERE content = 'The lantern gone.'",
    )
    return made


async def test_searches_go_by_stages_only_where_the_lifecycle_is_on(database_url: str, llm: Scripted) -> None:
    async with Memory(database_url, llm, Settings(llm="offline")) as off:
        made = await in_every_stage(off)
        assert await parts(off) == dict.fromkeys(made.values(), 0) | {made["disputed"]: -0.12, made["gone"]: -0.08}
    async with Memory(database_url, llm, Settings(**ON)) as on:
        assert await parts(on) == {
            made["none"]: 0,
            made["active"]: 0.05,
            made["validated"]: 0.03,
            made["candidate"]: -0.01,
            made["stale"]: -0.06,
            made["archived"]: -0.08,
            made["disputed"]: -0.13,  # candidate, until the next sweep makes it stale
            made["gone"]: -0.08,  # its status says it
        }
        assert (await found(on, top_k=20))[:2] == [made["active"], made["validated"]]
        assert len(await found(on, top_k=20, as_of=on.now())) == len(made)
        asked = await on.context(**MIA, message="Do you remember the lantern?", retrieve=True)
        assert made["active"] in asked.sources


async def test_what_is_stale_can_be_hidden_before_the_cut(database_url: str, llm: Scripted) -> None:
    async with Memory(database_url, llm, Settings(**ON, stale_hidden=True)) as memory:
        made = await in_every_stage(memory)
        shown = {made[name] for name in ("none", "active", "validated", "candidate", "disputed")}
        assert {*await found(memory, top_k=20)} == shown
        assert len(await found(memory, top_k=5)) == 5
        await memory.observations.mark(made["stale"], **MIA, policy="protected")
        assert {*await found(memory, top_k=20)} == {*shown, made["stale"]}
        assert {*await found(memory, top_k=20, as_of=memory.now())} == {*made.values()}  # stages have no past
    async with Memory(database_url, llm, Settings(llm="offline", stale_hidden=True)) as off:
        assert {*await found(off, top_k=20)} == {*made.values()}


def test_command_shows_what_would_change(database_url: str) -> None:
    at = ("--url", database_url)
    sure = ("--confidence", "0.5", "--importance", "0.1")
    one = memory_sql("observe", "Mia might fly.", "--agent", "ada", "--user", "mia", *sure, "--json", *at).value["id"]
    day = datetime.now(UTC).date() + timedelta(days=400)
    told = memory_sql("work", "maintain", "--dry-run", "--at", f"{day}", *at).out
    assert told == (
        "would be: 1 observation with another stage, 1 archived, 1 in another tier\n"
        f"{one} of ada: candidate to archived\n{one} of ada: active to archived\n{one} of ada: hot to cold\n"
    )
    assert (
        memory_sql("work", "maintain", "--dry-run", *at).out
        == "would be: 0 observations with another stage, 0 archived\n"
    )
    assert "must be a day" in memory_sql("work", "maintain", "--dry-run", "--at", "soon", *at, code=1).err
    assert "dry_run=True" in memory_sql("work", "maintain", "--at", f"{day}", *at, code=1).err
