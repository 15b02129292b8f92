"""What expires, when and why; what a plan came to; whose words outlive their retention (R201–R204, R156, C17, C18)."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from datetime import date, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from memory_sql.config import Settings
from memory_sql.db.principals import service
from memory_sql.db.roles import Roles
from memory_sql.domain.observations import Observation
from memory_sql.domain.results import MaintainResult
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError, NotFoundError, VersionError
from memory_sql.lifecycle import expiry
from memory_sql.llm import Request
from memory_sql.memory import Memory
from tests.conftest import as_login
from tests.database import rows
from tests.factories import MONDAY, Clock, message
from tests.fakes import Scripted, extracted
from tests.sizes import few_in_ci

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
SETTINGS = Settings(llm="offline", consolidation_threshold=3, commitment_days=90)
FRIDAY = date(2026, 3, 6)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def llm() -> Scripted:
    return Scripted()


@pytest.fixture
async def memory(database_url: str, llm: Scripted, clock: Clock) -> AsyncIterator[Memory]:
    async with Memory(database_url, llm, SETTINGS, clock=clock) as opened:
        yield opened
        assert list(await opened.admin.verify()) == []


async def said(memory: Memory, what: str, *, until: date | None = None, **more: Any) -> Observation:
    done = await memory.observe(what, **{**MIA, "observed_at": memory._runtime.now(), **more}, until=until)
    return await memory.observations.get(done.id, agent_id=more.get("agent_id", "ada"), user_id="mia")


async def guess(memory: Memory, what: str = "Mia may like jazz.", **more: Any) -> str:
    return (await said(memory, what, **{"confidence": 0.3, **more})).id


async def plan(memory: Memory, what: str = "Mia will send the report.", *, until: date = FRIDAY, **more: Any) -> str:
    return (await said(memory, what, until=until, **{"category": "commitment", "confidence": 0.9, **more})).id


async def status(memory: Memory, *ids: str) -> list[str]:
    return [(await memory.observations.get(one, **MIA)).status for one in ids]


async def expired(memory: Memory) -> int:
    return (await memory.work.maintain()).expired


async def protect(memory: Memory, one: str) -> None:
    scope_id, _, seq = one[1:].partition("-")
    await rows(
        memory,
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, policy)"
        " SELECT agent_key, scope_id, :seq, 'protected' FROM memory.scopes WHERE scope_id = :scope"
        " ON CONFLICT (agent_key, scope_id, seq) DO UPDATE SET policy = excluded.policy",
        scope=int(scope_id),
        seq=int(seq),
    )


async def whys(memory: Memory) -> list[tuple[Any, ...]]:
    found = (
        "SELECT 'o' || scope_id || '-' || seq, detail->>'from', detail->>'to', detail->>'why', actor FROM memory.events"
    )
    return await rows(memory, f"{found} WHERE kind = 'status' ORDER BY event_id")


# Guesses


@pytest.mark.parametrize(("confidence", "expires"), [(0.399, True), (0.4, False), (None, False)])
async def test_guess_expires_thirty_days_after_it_was_said(
    memory: Memory, clock: Clock, confidence: float | None, expires: bool
) -> None:
    one = await guess(memory, confidence=confidence)
    clock.goes_on(days=29.9)
    assert await expired(memory) == 0
    clock.goes_on(days=0.2)
    assert await memory.work.maintain() == MaintainResult(messages=0, expired=int(expires), complete=True)
    assert await status(memory, one) == ["evicted" if expires else "active"]
    assert await whys(memory) == [(one, "active", "evicted", "speculative", None)] * expires
    assert await expired(memory) == 0
    assert bool((await memory.search("jazz", **MIA)).results) is not expires
    assert ("jazz" in str(await memory.context(**MIA))) is not expires
    when = await rows(memory, "SELECT expires_at FROM memory.v_observations")
    assert when == [(MONDAY + timedelta(days=30) if expires else None,)]


async def test_guess_of_long_ago_has_its_days_in_the_store(memory: Memory, clock: Clock) -> None:
    one = await guess(memory, observed_at=MONDAY - timedelta(days=900))
    assert await expired(memory) == 0
    clock.goes_on(days=30.1)
    assert await expired(memory) == 1
    assert await status(memory, one) == ["evicted"]


@pytest.mark.parametrize(
    ("what", "due_at", "is_due_then"),
    [
        ("guess", MONDAY + timedelta(days=30), False),
        ("own", MONDAY + timedelta(days=3), False),
        ("plan", MONDAY.replace(hour=0) + timedelta(days=5), True),
        ("resolved", MONDAY + timedelta(days=90), False),
    ],
)
async def test_what_is_due_goes_by_the_operators_of_the_source(
    memory: Memory, clock: Clock, what: str, due_at: datetime, is_due_then: bool
) -> None:
    """To the microsecond (C28)."""
    one = await (plan(memory, until=FRIDAY) if what in ("plan", "resolved") else guess(memory))
    if what == "resolved":
        await memory.observations.resolve(one, "fulfilled", **MIA)
    if what == "own":
        await rows(
            memory,
            "INSERT INTO memory.observation_states (agent_key, scope_id, seq, expires_at)"
            " SELECT agent_key, scope_id, seq, :at FROM memory.observations",
            at=due_at,
        )

    async def due(moments: int) -> bool:
        found = await memory.work.maintain(dry_run=True, at=due_at + timedelta(microseconds=moments))
        return [moved.observation_id for moved in found.examples if moved.sweep == "expiry"] == [one]

    assert [await due(moments) for moments in (-1, 0, 1)] == [False, is_due_then, True]


async def test_person_confirms_a_guess(memory: Memory, clock: Clock) -> None:
    one, own = await guess(memory), await guess(memory, "Mia may like blues.")
    await rows(memory, "UPDATE memory.observations SET created_at = created_at")
    scope_id, _, seq = own[1:].partition("-")
    await rows(
        memory,
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, expires_at)"
        " SELECT agent_key, scope_id, :seq, :at FROM memory.scopes WHERE scope_id = :scope",
        scope=int(scope_id),
        seq=int(seq),
        at=MONDAY + timedelta(days=3),
    )
    for each in (one, own):
        await memory.observations.confirm(each, **MIA)
    clock.goes_on(days=100)
    assert await expired(memory) == 0
    assert await status(memory, one, own) == ["active", "active"]


async def test_later_formation_confirms_a_guess_and_the_same_message_read_again_does_not(
    memory: Memory, llm: Scripted, clock: Clock
) -> None:
    await memory.add([message("I may like jazz.", n=1)], **MIA, conversation_id="s")
    llm.then(extracted(("Mia may like jazz.", "individual", [1])))
    (jazz,) = (await memory.conversations.form(**ADA, conversation_id="s")).observations
    await rows(memory, "UPDATE memory.observations SET confidence = 0.3")
    clock.goes_on(days=1)
    llm.then(extracted(("Mia may like jazz.", "individual", [1])))
    await memory.conversations.form(**ADA, conversation_id="s", again=True)
    clock.goes_on(days=1)
    async with memory._runtime.database.transaction(principal=service("ada")) as unit:
        counts, first = await expiry.due(unit, "ada", SETTINGS, MONDAY + timedelta(days=31))
    assert (counts, [one.id for one in first]) == ({"speculative": 1}, [jazz.id])
    await memory.add([message("Yes, I may like jazz.", n=2)], **MIA, conversation_id="s")
    llm.then(extracted(("Mia may like jazz.", "individual", [1])))
    await memory.conversations.form(**ADA, conversation_id="s")
    assert await rows(memory, "SELECT count(*) FROM memory.observations") == [(1,)]
    clock.goes_on(days=100)
    assert await expired(memory) == 0


async def test_observation_with_a_time_of_its_own_expires_then(memory: Memory, clock: Clock) -> None:
    one, promise = (await said(memory, "The code of the door is 7.", confidence=1.0)).id, await plan(memory)
    await rows(
        memory,
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, expires_at)"
        " SELECT agent_key, scope_id, seq, :at FROM memory.observations",
        at=MONDAY + timedelta(hours=1),
    )
    assert await expired(memory) == 0
    clock.goes_on(hours=1.1)
    assert await expired(memory) == 1
    assert await status(memory, one, promise) == ["evicted", "active"]


async def test_unresolved_commitment_is_never_removed(memory: Memory, clock: Clock) -> None:
    one = await guess(memory, "Mia will perhaps call.", category="commitment")
    clock.goes_on(days=5000)
    assert await expired(memory) == 0
    assert await status(memory, one) == ["active"]


# Plans and commitments


async def test_plan_is_over_when_its_day_is(memory: Memory, clock: Clock) -> None:
    one = await plan(memory)
    assert "report" in str(await memory.context(**MIA, message="What did I promise?"))
    clock.now = MONDAY.replace(day=6, hour=23, minute=59)
    assert await expired(memory) == 0
    clock.goes_on(minutes=1)
    assert await expired(memory) == 1
    assert await whys(memory) == [(one, "active", "archived", "expired", None)]
    found = await memory.observations.get(one, **MIA)
    assert (found.status, found.resolved, found.until, found.pending) == ("archived", "expired", FRIDAY, False)
    assert await memory.observations.list(**MIA) == []
    assert "report" not in str(await memory.context(**MIA))
    assert "report" not in str(await memory.digest(**MIA, query="report"))
    (hit,) = (await memory.search("report", **MIA)).results
    assert hit.observation.resolved == "expired"
    told = str(await memory.context(**MIA, message="Do you remember the report?"))
    assert "Mia will send the report. (2026-03-02, was planned until 2026-03-06)" in told
    then = await memory.observations.list(**MIA, as_of=MONDAY)
    assert [(o.id, o.status, o.resolved) for o in then] == [(one, "active", None)]


async def test_day_ends_where_the_agent_is(memory: Memory, clock: Clock) -> None:
    await plan(memory)
    await memory.configure(**ADA, time_zone="America/Los_Angeles")
    clock.now = MONDAY.replace(day=7, hour=7, minute=59)
    assert await expired(memory) == 0
    clock.goes_on(minutes=1)
    assert await expired(memory) == 1
    assert await rows(memory, "SELECT resolved_at FROM memory.v_observations") == [(clock.now,)]


async def test_zone_that_nobody_knows_stops_no_sweep(memory: Memory, clock: Clock) -> None:
    await plan(memory)
    await rows(memory, """UPDATE memory.agents SET settings = '{"time_zone": "Atlantis", "commitment_days": "soon"}'""")
    clock.goes_on(days=4)
    assert await expired(memory) == 0
    clock.goes_on(days=1)
    assert await expired(memory) == 1


async def test_resolved_commitment_is_found_for_ninety_days(memory: Memory, clock: Clock) -> None:
    one = await plan(memory)
    done = await memory.observations.resolve(one, "fulfilled", **MIA, reason="sent")
    assert (done.status, done.resolved) == ("archived", "fulfilled")
    assert "report" not in str(await memory.context(**MIA))
    assert "(today, fulfilled)" in str(await memory.context(**MIA, message="Do you remember the report?"))
    assert await memory.observations.resolve(one, "fulfilled", **MIA) == done
    clock.goes_on(days=89.9)
    assert await expired(memory) == 0
    clock.goes_on(days=0.2)
    assert await expired(memory) == 1
    assert (await memory.search("report", **MIA)).results == ()
    gone = await memory.observations.get(one, **MIA)
    assert (gone.status, gone.resolved) == ("evicted", "fulfilled")
    assert await whys(memory) == [
        (one, "active", "archived", "resolve", "mia"),
        (one, "archived", "evicted", "resolved", None),
    ]
    with pytest.raises(InputError, match="isn't resolved"):
        await memory.observations.resolve(one, None, **MIA)


async def test_what_is_taken_back_is_not_over_whatever_its_day(memory: Memory, clock: Clock) -> None:
    one = await plan(memory)
    clock.goes_on(days=10)
    assert await expired(memory) == 1
    later = await memory.observations.resolve(one, "fulfilled", **MIA)
    assert later.resolved == "fulfilled"  # late
    back = await memory.observations.resolve(one, None, **MIA, actor="desk")
    assert (back.status, back.resolved, back.pending) == ("active", None, True)
    assert "report" in str(await memory.context(**MIA))
    clock.goes_on(days=500)
    assert await expired(memory) == 0
    assert (await memory.observations.resolve(one, "expired", **MIA)).resolved == "expired"
    clock.goes_on(days=100)
    assert await expired(memory) == 1


async def test_resolving_refuses_what_it_cannot_do(memory: Memory) -> None:
    one = await plan(memory)
    with pytest.raises(InputError, match="isn't resolved"):
        await memory.observations.resolve(one, None, **MIA)
    with pytest.raises(InputError, match="one of fulfilled, expired"):
        await memory.observations.resolve(one, "done", **MIA)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError):
        await memory.observations.resolve(one, "fulfilled", **ADA, user_id="jonas")
    with pytest.raises(VersionError):
        await memory.observations.resolve(one, "fulfilled", **MIA, if_version=7)
    await memory.observations.resolve(one, "fulfilled", **MIA, if_version=1)
    with pytest.raises(VersionError, match="archived"):
        await memory.observations.confirm(one, **MIA)
    again = await plan(memory)
    assert again != one  # said again: a new promise
    with pytest.raises(InputError, match=again):
        await memory.observations.resolve(one, None, **MIA)


@pytest.mark.slow
async def test_what_a_resolved_plan_replaced_stays_replaced(memory: Memory, clock: Clock) -> None:
    old, other = await plan(memory, "Mia flies on Thursday."), await plan(memory, "Mia may fly on Saturday.")
    new = await plan(memory, "Mia flies on Friday.")
    await memory.observations.supersede(old, new, **MIA)
    clock.goes_on(days=10)
    assert await expired(memory) == 2
    await memory.observations.quarantine(other, **MIA)  # looks what stands again in the scope
    assert await status(memory, old, new) == ["superseded", "archived"]
    await memory.observations.unquarantine(other, **MIA)
    assert (await memory.observations.get(other, **MIA)).resolved == "expired"
    await memory.forget(Selection(observation_id=new), **ADA)
    assert await status(memory, old) == ["active"]


async def test_resolved_plan_goes_into_no_text_and_the_text_that_holds_it_is_rewritten_next(
    memory: Memory, llm: Scripted, clock: Clock
) -> None:
    one = await plan(memory)
    llm.then('{"text": "Mia will send the report."}')
    await memory.scopes.consolidate(**ADA, scope_id=(await memory.observations.get(one, **MIA)).scope.id)
    second = await plan(memory, "Mia will paint the boat.")
    await memory.observations.resolve(one, "fulfilled", **MIA)
    assert "report" in str(await memory.context(**MIA))  # of the text: until it is rewritten
    assert await rows(memory, "SELECT due_at IS NOT NULL FROM memory.scopes") == [(True,)]  # below the threshold
    await memory.observations.resolve(second, "fulfilled", **MIA)
    assert await rows(memory, "SELECT due_at FROM memory.scopes") == [(None,)]  # nothing waits


PLANS = (
    "Mia will send the quarterly report on all the boats in the yard to the harbour office in Bergen.",
    "Mia will paint the hull of the old boat with two coats of green varnish.",
)
STANDS = " ".join(f"Mia keeps the key of shed {n} in drawer {n} of the cabinet." for n in range(10, 13))


async def test_consolidation_is_told_once_what_plans_of_the_text_came_to(
    memory: Memory, llm: Scripted, clock: Clock
) -> None:
    """They may go, though they are more than a quarter of the text, and nothing new says that they are over."""
    ids = [await plan(memory, what) for what in PLANS]
    back = await plan(memory, "Mia will varnish the mast.", until=date(2099, 1, 1))
    scope: dict[str, Any] = {**ADA, "scope_id": (await memory.observations.get(back, **MIA)).scope.id}
    await said(memory, STANDS)
    whole = f"{STANDS} {' '.join(PLANS)} Mia will varnish the mast."

    async def consolidated(text: str, *over: str) -> list[str]:
        left_out = [{"what": name, "why": "over"} for name in over]
        llm.then(json.dumps({"text": text, "left_out": left_out}))
        await memory.scopes.consolidate(**scope)
        _, begun, rest = llm.requests[-1].prompt.partition(" begin ended\n")
        return rest.partition("\n---")[0].splitlines() if begun else []

    assert await consolidated(whole) == []
    clock.goes_on(days=1)
    for one in (ids[0], back):
        await memory.observations.resolve(one, "fulfilled", **MIA)
    await memory.observations.resolve(back, None, **MIA)
    clock.goes_on(days=7)
    await memory.work.maintain()  # the other plan's day is over
    await said(memory, "Mia has a cat.")
    ended = await consolidated(f"{STANDS} Mia will varnish the mast. Mia has a cat.", "s4", "s5")
    assert ended == [
        f'{came_to} 2026-03-02T09:00Z (Monday) "{what}"'
        for came_to, what in zip(("fulfilled", "expired"), PLANS, strict=True)
    ]
    assert "report" not in str(await memory.context(**MIA))
    assert "hull" not in str(await memory.context(**MIA))
    await said(memory, "Mia has a dog.")
    assert await consolidated(f"{STANDS} Mia will varnish the mast. Mia has a cat and a dog.") == []


async def test_next_consolidation_is_told_what_ended_while_one_was_under_way(
    memory: Memory, llm: Scripted, clock: Clock
) -> None:
    clock.now = MONDAY.replace(hour=23, minute=59)
    one = await plan(memory, PLANS[0], until=MONDAY.date())
    scope: dict[str, Any] = {**ADA, "scope_id": (await memory.observations.get(one, **MIA)).scope.id}

    async def meanwhile(request: Request[Any]) -> str:
        clock.goes_on(minutes=2)
        assert (await memory.work.maintain()).expired == 1
        clock.goes_on(minutes=1)
        return json.dumps({"text": PLANS[0]})

    llm.then(meanwhile)
    await memory.scopes.consolidate(**scope)
    for told, what in ((True, "Mia has a cat."), (False, "Mia has a dog.")):
        await said(memory, what)
        llm.then(json.dumps({"text": f"{PLANS[0]} {what}"}))
        clock.goes_on(minutes=1)
        await memory.scopes.consolidate(**scope)
        assert ("begin ended" in llm.requests[-1].prompt) == told


async def test_what_somebody_leaves_behind_in_a_group_cannot_be_taken_back(memory: Memory, clock: Clock) -> None:
    await memory.groups.create(**ADA, group_id="harbour")
    for user in ("mia", "jonas"):
        await memory.groups.add_member(**ADA, group_id="harbour", user_id=user)
    one = (await memory.observe("Mia will paint the boat.", **MIA, group_id="harbour", category="commitment")).id
    await memory.observations.resolve(one, "fulfilled", **MIA)
    await memory.groups.remove_member(**ADA, group_id="harbour", user_id="mia")
    jonas: dict[str, Any] = {**ADA, "user_id": "jonas"}
    assert (await memory.observations.get(one, **jonas)).status == "archived"
    with pytest.raises(InputError, match="isn't resolved"):
        await memory.observations.resolve(one, None, **jonas)


async def test_each_batch_says_when_it_was_itself(database_url: str, llm: Scripted, clock: Clock) -> None:
    """A sweep may take long: what it takes last was in use until then."""

    def ticking() -> datetime:
        clock.goes_on(seconds=1)
        return clock.now

    async with Memory(database_url, llm, SETTINGS.model_copy(update={"maintenance_batch": 1}), clock=ticking) as memory:
        for what in PLANS:
            await plan(memory, what)
        clock.goes_on(days=7)
        assert await expired(memory) == 2
        told = "SELECT count(DISTINCT status_at), count(DISTINCT resolved_at) FROM memory.observation_states"
        assert await rows(memory, told) == [(2, 1)]


# What no sweep touches


@pytest.mark.slow
async def test_what_is_held_set_aside_or_protected_stays(memory: Memory, clock: Clock) -> None:
    drinks = ("tea", "rum", "gin")
    ids = [await guess(memory, f"Mia may like {what}.") for what in drinks]
    plans = [await plan(memory, f"Mia will drink {what}.") for what in drinks]
    done = [await plan(memory, f"Mia will buy {what}.") for what in drinks]
    for one in done:
        await memory.observations.resolve(one, "fulfilled", **MIA)
    for first, second, third in (ids, plans, done):
        await memory.holds.place(**ADA, observation_id=first, reason="case 7")
        await memory.observations.quarantine(second, **MIA)
        await protect(memory, third)
    clock.goes_on(days=200)
    assert await expired(memory) == 0
    for hold in await memory.holds.list(**ADA):
        await memory.holds.release(hold.hold_id, **ADA)
    for one in (ids[1], plans[1], done[1]):
        await memory.observations.unquarantine(one, **MIA)
    await rows(memory, "UPDATE memory.observation_states SET policy = 'durable'")
    assert await expired(memory) == 12  # the plans twice: over, and that for long
    assert {*await status(memory, *ids, *plans, *done)} == {"evicted"}


async def test_sweep_passes_over_what_somebody_works_on(memory: Memory, clock: Clock) -> None:
    mine = await guess(memory)
    theirs = (await memory.observe("Jonas may like jazz.", **ADA, user_id="jonas", confidence=0.3)).id
    clock.goes_on(days=40)
    async with memory._runtime.database.transaction(principal=service("ada")) as unit:
        await unit.execute(text("SELECT FROM memory.scopes WHERE owner = 'u:jonas' FOR NO KEY UPDATE"))
        assert await expired(memory) == 1
        assert await status(memory, mine) == ["evicted"]
    assert await expired(memory) == 1
    assert (await memory.observations.get(theirs, **ADA, user_id="jonas")).status == "evicted"


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_sweep_goes_on_where_it_stopped(memory: Memory, clock: Clock, limit: int) -> None:
    ids = [await guess(memory, f"Mia may like {n} cats.") for n in range(5)]
    clock.goes_on(days=40)
    done, complete = 0, False
    while not complete:
        swept = await memory.work.maintain(limit=limit)
        assert swept.expired <= limit
        done, complete = done + swept.expired, swept.complete
    assert done == 5
    assert await status(memory, *ids) == ["evicted"] * 5


@pytest.mark.slow
async def test_each_agent_has_its_own_days(memory: Memory, clock: Clock) -> None:
    own: dict[str, Any] = {"never": 0, "ever": "forever", "ten": 10, "default": None}
    for agent, days in own.items():
        await memory.configure(agent_id=agent, speculative_days=days, commitment_days=days)
        await memory.observe("Mia may like jazz.", agent_id=agent, user_id="mia", confidence=0.1)
        done = await memory.observe("Mia will call.", agent_id=agent, user_id="mia", category="commitment")
        await memory.observations.resolve(done.id, "fulfilled", agent_id=agent, user_id="mia")
    gone = "SELECT agent_id, count(*) FROM memory.v_observations WHERE status = 'evicted' GROUP BY 1 ORDER BY 1"
    clock.goes_on(days=11)
    assert await expired(memory) == 2
    assert await rows(memory, gone) == [("ten", 2)]
    clock.goes_on(days=20)
    assert await memory.work.maintain(agent_id="ever") == MaintainResult(messages=0, complete=True)
    assert await expired(memory) == 1
    clock.goes_on(days=5000)
    assert await expired(memory) == 1
    assert await rows(memory, gone) == [("default", 2), ("ten", 2)]


@pytest.mark.slow
async def test_application_behind_walls_sweeps(walled_database: str, roles: Roles, llm: Scripted, clock: Clock) -> None:
    async with Memory(as_login(walled_database, roles), llm, SETTINGS, clock=clock) as walled:
        assert walled.database.walled
        await walled.observe("Mia may like jazz.", **MIA, confidence=0.3)
        done = await walled.observe("Mia will call.", **MIA)
        await walled.observations.resolve(done.id, "fulfilled", **MIA)
        clock.goes_on(days=100)
        assert (await walled.work.maintain(agent_id="bob")).expired == 0
        assert await expired(walled) == 2
        found = await rows(walled, "SELECT DISTINCT status FROM memory.observation_states")
        assert found == [("evicted",)]


# However often, in whatever order


async def filled(memory: Memory, agent: str, chance: random.Random) -> None:
    mia: dict[str, Any] = {"agent_id": agent, "user_id": "mia"}
    for n in range(30):
        until = chance.choice([None, FRIDAY + timedelta(days=chance.randrange(60))])
        more = {"category": chance.choice(["commitment", "fact", None]), "confidence": chance.choice([None, 0.1, 0.9])}
        one = (await said(memory, f"Mia has {n} boats.", until=until, **more, **mia)).id
        if chance.random() < 0.2:
            await memory.observations.confirm(one, **mia)
        if chance.random() < 0.2:
            await memory.observations.resolve(one, chance.choice(["fulfilled", "expired"]), **mia)


@pytest.mark.slow
@pytest.mark.parametrize("seed", few_in_ci(range(3), [0]))
async def test_sweep_a_day_comes_to_the_same_as_one_at_the_end_and_a_second_changes_nothing(
    memory: Memory, clock: Clock, seed: int
) -> None:
    for agent in ("ada", "bob"):
        await filled(memory, agent, random.Random(seed))
    for day in range(1, 160):
        clock.now = MONDAY + timedelta(days=day)
        await memory.work.maintain(agent_id="ada")
    await memory.work.maintain(agent_id="bob")
    assert await expired(memory) == 0
    states = (
        "SELECT seq, status, resolved, resolved_at, expires_at FROM memory.v_observations"
        " WHERE agent_id = :agent ORDER BY seq"
    )
    ledger = (
        "SELECT seq, detail->>'from', detail->>'to', detail->>'why' FROM memory.events JOIN memory.agents USING (agent_key)"
        " WHERE agent_id = :agent AND kind = 'status' ORDER BY seq, event_id"
    )
    for query in (states, ledger):
        ada, bob = [await rows(memory, query, agent=agent) for agent in ("ada", "bob")]
        assert ada == bob
        assert len(ada) >= 20


async def test_dry_run_says_for_any_day_what_a_sweep_would_do(memory: Memory, clock: Clock) -> None:
    one, two = await guess(memory), await plan(memory)
    three = await plan(memory, "Mia will call.")
    await memory.observations.resolve(three, "fulfilled", **MIA)

    async def on(days: int) -> dict[str, list[str]]:
        async with memory._runtime.database.transaction(principal=service("ada")) as unit:
            counts, found = await expiry.due(unit, "ada", SETTINGS, MONDAY + timedelta(days=days))
        assert counts == {why: sum(each.why == why for each in found) for why in counts}
        return {why: [each.id for each in found if each.why == why] for why in counts}

    assert await on(1) == {}
    assert await on(5) == {"expired": [two]}
    assert await on(31) == {"expired": [two], "speculative": [one]}
    assert await on(500) == {"expired": [two], "speculative": [one], "resolved": [three]}
    assert await status(memory, one, two, three) == ["active", "active", "archived"]


# Verbatim


async def decided(memory: Memory, llm: Scripted, *, category: str = "decision", confidence: float = 0.8) -> str:
    await memory.add([message("We take the red boat.", n=1), message("Nice weather.", n=2)], **MIA, conversation_id="s")
    llm.then(extracted(("Mia takes the red boat.", "individual", [1]), ("The weather is nice.", "individual", [2])))
    boat, _ = (await memory.conversations.form(**ADA, conversation_id="s")).observations
    await rows(
        memory,
        "UPDATE memory.observations SET category = :category, confidence = :confidence WHERE seq = 1",
        category=category,
        confidence=confidence,
    )
    return boat.id


async def words(memory: Memory) -> list[str]:
    found = await rows(memory, "SELECT content FROM memory.messages WHERE content IS NOT NULL ORDER BY number")
    return [content for (content,) in found]


@pytest.mark.parametrize(
    ("category", "confidence", "keeps", "kept"),
    [
        *((each, 0.8, True, True) for each in ("decision", "correction", "principle", "commitment")),
        ("decision", 0.79, True, False),
        ("fact", 0.9, True, False),
        ("decision", 0.9, False, False),
    ],
)
async def test_words_behind_what_matters_outlive_their_retention(
    memory: Memory, llm: Scripted, clock: Clock, category: str, confidence: float, keeps: bool, kept: bool
) -> None:
    one = await decided(memory, llm, category=category, confidence=confidence)
    await memory.configure(**ADA, keep_verbatim=keeps)
    clock.goes_on(days=31)
    assert (await memory.work.maintain()).messages == 2 - kept
    assert (await memory.work.maintain()).messages == 0
    assert await words(memory) == ["We take the red boat."] * kept
    assert len(await memory.observations.sources(one, **MIA)) == kept
    assert len(await memory.conversations.messages(**MIA)) == kept
    assert len((await memory.search("red boat", **MIA, messages=5)).messages) == kept


async def test_words_go_with_what_they_are_behind(memory: Memory, llm: Scripted, clock: Clock) -> None:
    one = await decided(memory, llm)
    await memory.configure(**ADA, keep_verbatim=True)
    clock.goes_on(days=31)
    await memory.work.maintain()
    await rows(memory, "UPDATE memory.observations SET confidence = 0.1")
    await memory.work.maintain()  # the guess is gone, and only now its words are for nothing
    assert await status(memory, one) == ["evicted"]
    await memory.work.maintain()
    assert await words(memory) == []


async def test_words_go_when_they_are_no_longer_to_be_kept(memory: Memory, llm: Scripted, clock: Clock) -> None:
    await decided(memory, llm)
    await memory.configure(**ADA, keep_verbatim=True)
    clock.goes_on(days=31)
    await memory.work.maintain()
    assert await words(memory) == ["We take the red boat."]
    await memory.configure(**ADA, keep_verbatim=None)
    await memory.work.maintain()
    assert await words(memory) == []


@pytest.mark.parametrize("selection", [{"everything": True}, {"user_id": "mia"}, {"conversation_id": "s"}])
async def test_forgetting_takes_kept_words_like_any_other(
    memory: Memory, llm: Scripted, clock: Clock, selection: dict[str, Any]
) -> None:
    await decided(memory, llm)
    await memory.configure(**ADA, keep_verbatim=True)
    clock.goes_on(days=31)
    await memory.work.maintain()
    await memory.forget(Selection(**selection), **ADA)
    assert "red boat" not in str(await rows(memory, "SELECT m::text FROM memory.messages m"))
    assert "red boat" not in str(await rows(memory, "SELECT o::text FROM memory.observations o"))


async def test_words_are_kept_also_where_retention_is_off(database_url: str, llm: Scripted, clock: Clock) -> None:
    settings = Settings(llm="offline", message_retention_days=0, keep_verbatim=True)
    async with Memory(database_url, llm, settings, clock=clock) as memory:
        await memory.add([message("We take the red boat.", n=1)], **MIA, conversation_id="s")
        found = extracted(("Mia takes the red boat.", "individual", [1]))
        llm.then(found)
        clock.goes_on(seconds=1)
        await memory.conversations.form(**ADA, conversation_id="s")
        assert await words(memory) == []  # nothing says that it was a decision
        assert await memory.admin.verify() == []
