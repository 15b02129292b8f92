"""Tiers: what is cold isn't ranked while what is hot fills the result."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from memory_sql.config import Settings
from memory_sql.db.principals import service
from memory_sql.domain.exports import ExportedObservation
from memory_sql.domain.observations import Tier
from memory_sql.domain.query import Query, Weights
from memory_sql.domain.reading import Hit
from memory_sql.domain.results import MaintainResult, Moved
from memory_sql.errors import DatabaseError
from memory_sql.lifecycle.scores import TierRules, next_tier
from memory_sql.memory import Memory
from memory_sql.retrieval.search import weights_of
from tests.database import rows, statements
from tests.factories import MONDAY, Clock
from tests.fakes import Meanings, Scripted

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
JONAS: dict[str, Any] = {**ADA, "user_id": "jonas"}
ON: dict[str, Any] = {"llm": "offline", "tiering": True, "classification": "off"}
RULES = TierRules(0.35, 0.70, 14)
LITTLE: dict[str, Any] = {"confidence": 0.5, "importance": 0.1}  # worth .21, and up to .20 more while it is new


@pytest.fixture
async def tiered(database_url: str, llm: Scripted, clock: Clock) -> AsyncIterator[Memory]:
    async with Memory(database_url, llm, Settings(**ON), clock=clock) as memory:
        yield memory
        assert await memory.admin.verify() == []


async def observed(memory: Memory, said: str, **given: Any) -> str:
    return (await memory.observe(said, **{**MIA, **given})).id


async def cold(memory: Memory, table: str = "observations") -> list[str]:
    found = await rows(
        memory,
        f"SELECT 'o' || scope_id || '-' || seq FROM memory.{table} WHERE cold ORDER BY scope_id, seq",  # noqa: S608
    )
    return [one for (one,) in found]


async def chill(memory: Memory, *ids: str) -> None:
    """As the sweep does."""
    await rows(
        memory,
        "UPDATE memory.observations SET cold = true WHERE 'o' || scope_id || '-' || seq = ANY (:ids)",
        ids=list(ids),
    )


async def used(memory: Memory, observation_id: str, times: int, clock: Clock) -> None:
    scope, seq = observation_id.removeprefix("o").split("-")
    await rows(
        memory,
        "INSERT INTO memory.observation_retrievals (agent_key, scope_id, seq, day, surface, times)"
        " SELECT agent_key, :scope, :seq, :day, 'search', :times FROM memory.agents WHERE agent_id = 'ada'",
        **{"scope": int(scope), "seq": int(seq), "day": clock.now.date(), "times": times},
    )


async def found(memory: Memory, query: str = "lantern", **more: Any) -> list[str]:
    return [hit.observation.id for hit in (await memory.search(query, **{**MIA, **more})).results]


CASES: list[tuple[tuple[Tier, float, float, bool], Tier]] = [
    (("hot", 0.35, 14, False), "cold"),
    (("hot", 0.35, 13.99, False), "hot"),
    (("hot", 0.3501, 500, False), "hot"),
    (("hot", 0.0, 500, True), "hot"),
    (("cold", 0.69, 500, False), "cold"),
    (("cold", 0.70, 500, False), "hot"),
    (("cold", 0.70, 0, False), "hot"),
    (("cold", 0.36, 0, False), "cold"),
    (("cold", 0.10, 500, True), "hot"),
]


async def in_sql(memory: Memory, tier: Tier, value: float, days: float, protected: bool, rules: TierRules) -> Tier:
    given = {"tier": tier, "value": value, "age": days, "protected": protected, **rules._asdict()}
    asked = "memory.next_tier(:tier, :value, :age, :protected, :demote, :promote, :days)"
    ((answer,),) = await rows(memory, f"SELECT {asked}", **given)
    assert answer in ("hot", "cold")
    return "hot" if answer == "hot" else "cold"


@pytest.mark.parametrize("side", ["python", "sql"])
async def test_tier_follows_from_value_and_age(memory: Memory, side: str) -> None:
    for (tier, value, days, protected), expected in CASES:
        if side == "python":
            assert next_tier(tier, value, days, RULES, is_protected=protected) == expected
        else:
            assert await in_sql(memory, tier, value, days, protected, RULES) == expected
    both = TierRules(0.8, 0.2, 0)  # where both would apply it is hot
    if side == "python":
        assert next_tier("hot", 0.5, 9, both, is_protected=False) == "hot"
    else:
        assert await in_sql(memory, "hot", 0.5, 9, False, both) == "hot"


share = st.floats(0, 1)


@given(
    st.sampled_from(["hot", "cold"]),
    share,
    st.floats(0, 1000),
    st.builds(TierRules, share, share, st.integers(0, 100)),
    st.booleans(),
)
def test_twice_is_once_and_more_value_never_makes_it_cold(
    tier: Tier, value: float, days: float, rules: TierRules, protected: bool
) -> None:
    once = next_tier(tier, value, days, rules, is_protected=protected)
    assert next_tier(once, value, days, rules, is_protected=protected) == once
    assert not (protected and once == "cold")
    if once == "hot":
        assert next_tier(tier, min(1.0, value + 0.1), days, rules, is_protected=protected) == "hot"


async def test_what_is_old_and_worth_little_becomes_cold_and_hot_again_by_use(tiered: Memory, clock: Clock) -> None:
    little = await observed(tiered, "Mia might fly.", **LITTLE)
    much = await observed(tiered, "Mia rows.", confidence=0.95, importance=0.9)
    clock.now = MONDAY + timedelta(days=13, hours=23)
    assert (await tiered.work.maintain()).tiers == 0
    clock.now = MONDAY + timedelta(days=60)
    new = await observed(tiered, "Mia might dive.", confidence=0.5, importance=0.0, observed_at=MONDAY)
    done = await tiered.work.maintain()
    assert (done.tiers, done.complete, done.examples) == (1, True, ())
    assert await cold(tiered) == [little]  # the last one was stored today
    assert await tiered.work.maintain() == MaintainResult(messages=0, complete=True)
    await used(tiered, little, 6, clock)  # .12 + .26 * .64 + .20 + .02 + .05
    assert (await tiered.work.maintain()).tiers == 0
    await rows(tiered, "UPDATE memory.observations SET importance = 1")
    assert (await tiered.work.maintain()).tiers == 1
    assert await cold(tiered) == []
    assert [one.id for one in await tiered.observations.list(**MIA)] == [new, much, little]


async def test_off_nothing_is_swept_and_searches_are_as_before(memory: Memory, clock: Clock) -> None:
    await observed(memory, "Mia might fly.", **LITTLE, observed_at=MONDAY - timedelta(days=400))
    clock.now = MONDAY + timedelta(days=400)
    with statements(memory) as sent:
        assert (await memory.work.maintain()).tiers == 0
    assert not [statement for statement in sent if "sweep_tiers" in statement]
    assert await cold(memory) == []
    assert weights_of(Settings(llm="offline")) == Weights()
    one = await observed(memory, "The lantern is lit.")
    other = await observed(memory, "The lantern is red.")
    before = await memory.search("lantern", **MIA, explain=True)
    await chill(memory, one)
    after = await memory.search("lantern", **MIA, explain=True)
    assert [told(hit) for hit in after.results] == [told(hit) for hit in before.results]
    assert await found(memory) == [other, one]


def told(hit: Hit) -> tuple[Any, ...]:
    parts = hit.explanation.parts if hit.explanation is not None else {}
    return hit.observation.id, hit.score, hit.strength, hit.covered, parts


async def test_protected_held_and_set_aside_ones_never_move(tiered: Memory, clock: Clock) -> None:
    given = {**LITTLE, "category": "fact"}
    protected, held, aside, hot = [await observed(tiered, f"Boat {n}.", **given) for n in range(4)]
    preferred = await observed(tiered, "Mia prefers tea.", **LITTLE, category="preference")
    old = await observed(tiered, "The gate is 5.", **given, fact_key="gate")
    await observed(tiered, "The gate is 6.", **LITTLE, category="decision", fact_key="gate")
    await tiered.observations.mark(protected, **MIA, policy="protected")
    hold = await tiered.holds.place(**ADA, observation_id=held)
    await tiered.observations.quarantine(aside, **MIA)
    clock.now = MONDAY + timedelta(days=400)
    would = await tiered.work.maintain(dry_run=True)
    assert would.tiers == 1
    assert (await tiered.work.maintain()).tiers == 1
    assert await cold(tiered) == [hot]
    await chill(tiered, preferred)
    await tiered.holds.release(**ADA, hold_id=hold.hold_id)
    assert (await tiered.work.maintain()).tiers == 2
    assert await cold(tiered) == [held, hot]
    await tiered.holds.place(**ADA, observation_id=hot)
    await used(tiered, hot, 20, clock)
    await rows(tiered, "UPDATE memory.observations SET importance = 1 WHERE content = 'Boat 3.'")
    assert (await tiered.work.maintain()).tiers == 0
    assert await cold(tiered) == [held, hot]
    assert old not in await cold(tiered)


async def test_it_is_hot_at_once_when_it_is_said_again_or_protected_and_when_it_is_superseded(
    tiered: Memory, clock: Clock
) -> None:
    again, protected, corrected, kept = [await observed(tiered, f"Boat {n}.", **LITTLE) for n in range(4)]
    clock.now = MONDAY + timedelta(days=100)
    assert (await tiered.work.maintain()).tiers == 4
    await tiered.observe("Boat 0.", **MIA)
    await tiered.observations.mark(protected, **MIA, policy="protected")
    await tiered.observations.update(corrected, **MIA, text="Boat 2 is red.")
    await tiered.observations.resolve(kept, "fulfilled", **MIA)
    assert await cold(tiered) == [kept]  # what is archived is found, too
    assert again != kept


async def test_what_is_protected_is_hot_whatever_its_transaction_has_seen(
    database_url: str, tiered: Memory, clock: Clock
) -> None:
    """In REPEATABLE READ, where a sweep has made it cold meanwhile, the host has to try again."""
    one = await observed(tiered, "Boat.", **LITTLE)
    clock.now = MONDAY + timedelta(days=100)
    engine = create_async_engine(database_url, isolation_level="REPEATABLE READ")
    async with AsyncSession(engine) as session:
        await session.execute(text("SELECT count(*) FROM memory.observations"))
        assert (await tiered.work.maintain()).tiers == 1
        with pytest.raises(DBAPIError, match="concurrent update"):
            await tiered.observations.mark(one, **MIA, policy="protected", session=session)
        await session.rollback()
        await tiered.observations.mark(one, **MIA, policy="protected", session=session)
        await session.commit()
    await engine.dispose()
    assert await cold(tiered) == []


async def test_its_age_counts_from_when_it_was_said_again(tiered: Memory, clock: Clock) -> None:
    one = await observed(
        tiered, "Boat.", confidence=0.3, importance=0.0
    )  # worth .13, and up to .20 more while it is new
    clock.now = MONDAY + timedelta(days=20)
    assert await observed(tiered, "Boat.") == one
    clock.now = MONDAY + timedelta(days=33)
    assert (await tiered.work.maintain()).tiers == 0
    clock.now = MONDAY + timedelta(days=34)
    assert (await tiered.work.maintain()).tiers == 1
    assert await cold(tiered) == [one]


async def test_archived_ones_become_cold_as_well(tiered: Memory, clock: Clock) -> None:
    one = await observed(tiered, "Boat.", **LITTLE)
    await tiered.observations.resolve(one, "fulfilled", **MIA)
    clock.now = MONDAY + timedelta(days=80)
    assert (await tiered.work.maintain()).tiers == 1
    assert await cold(tiered) == [one]


async def test_what_is_locked_waits_for_the_next_sweep(tiered: Memory, clock: Clock) -> None:
    mine = await observed(tiered, "Boat.", **LITTLE)
    theirs = await observed(tiered, "Boat.", **LITTLE, user_id="jonas")
    clock.now = MONDAY + timedelta(days=100)
    async with tiered.database.transaction(principal=service(None)) as other:
        await other.execute(text("SELECT 1 FROM memory.scopes WHERE scope_id = 1 FOR NO KEY UPDATE"))
        assert (await tiered.work.maintain()).tiers == 1
        assert await cold(tiered) == [theirs]
    assert (await tiered.work.maintain()).tiers == 1
    assert await cold(tiered) == [mine, theirs]


async def test_dry_run_says_what_would_move(memory: Memory, clock: Clock) -> None:
    one = await observed(memory, "Boat.", **LITTLE)
    would = await memory.work.maintain(dry_run=True, at=memory.now() + timedelta(days=100))
    assert would.tiers == 1
    assert Moved(sweep="tiers", agent_id="ada", observation_id=one, was="hot", becomes="cold") in would.examples
    assert await cold(memory) == []


async def lanterns(memory: Memory, hot: int, frozen: int) -> tuple[list[str], list[str]]:
    """So many hot ones, newest first, and cold ones."""
    old = [await observed(memory, f"The lantern of cabin {n}.") for n in range(frozen)]
    new = [await observed(memory, f"The lantern of berth {n}.") for n in range(hot)]
    await chill(memory, *old)
    return new[::-1], old[::-1]


async def test_what_is_cold_is_not_ranked_while_what_is_hot_fills_the_result(database_url: str, llm: Scripted) -> None:
    async with (
        Memory(database_url, llm, Settings(**ON)) as on,
        Memory(database_url, llm, Settings(llm="offline")) as off,
    ):
        hot, frozen = await lanterns(on, 3, 2)
        query = "lantern of cabin"
        assert (await found(off, query, top_k=3)) == [*frozen, hot[0]]
        assert (await found(on, query, top_k=3)) == hot
        assert (await found(on, "lantern", top_k=2, user_id="jonas")) == []
        one = await on.search(query, **MIA, top_k=3, explain=True)
        assert [hit.explanation and hit.explanation.cold for hit in one.results] == [False] * 3
        # one more, and both are ranked together, as without tiers
        on_, off_ = [await memory.search(query, **MIA, top_k=4, explain=True) for memory in (on, off)]
        assert [told(hit) for hit in on_.results] == [told(hit) for hit in off_.results]
        assert [hit.explanation and hit.explanation.cold for hit in on_.results] == [True, True, False, False]
        now = on.now()
        assert await found(on, query, top_k=3, as_of=now) == await found(off, query, top_k=3, as_of=now)
        context = await on.context(**MIA, message="Do you remember the lantern of the cabin?", retrieve=True)
        assert {*frozen} & {*context.sources}  # a context asks for more than three
        with statements(on) as sent:
            await found(on, query, top_k=5)
        assert len(sent) <= 1


async def test_weights_say_so_only_where_it_is_on() -> None:
    assert weights_of(Settings(**ON)) == Weights(hot_first=True)
    asked = json.loads(Query().to_json(Weights(hot_first=True)))["weights"]
    assert asked.pop("hot_first") is True
    assert asked == json.loads(Query().to_json(Weights()))["weights"]


async def test_by_meaning_chance_does_not_fill_the_result(database_url: str, llm: Scripted) -> None:
    """Something is always nearest: it counts as found only if it is nearer than chance."""
    model = Meanings(dimensions=16)
    async with Memory(database_url, llm, Settings(**ON), embeddings=model) as on:
        sloop = await observed(on, "Mia owns a sloop.")
        for noise in (
            "The doctor has tea and a dog.",
            "A surgeon, coffee, a puppy.",
            "In the clinic: a drink, a hound.",
        ):
            await observed(on, noise)
        await on.work.embed()
        await chill(on, sloop)
        assert await cold(on, "observation_vectors") == [sloop]
        first, *_ = (await on.search("Which vessel has she got?", **MIA, top_k=2, explain=True)).results
        assert (first.observation.id, first.explanation and first.explanation.cold) == (sloop, True)
        yawl = await observed(on, "Mia rents a ship.")
        await on.work.embed()
        assert (await found(on, "Which vessel has she got?", top_k=1)) == [yawl]
        late = await observed(on, "Mia sold a boat.")
        await chill(on, late)
        await on.work.embed()
        assert await cold(on, "observation_vectors") == [sloop, late]  # a vector made later is cold as well


@pytest.mark.slow
async def test_large_scopes_are_asked_for_what_is_hot(database_url: str, llm: Scripted) -> None:
    """Where few words are rare enough to be looked up, and where none is: by what is hot alone."""
    async with (
        Memory(database_url, llm, Settings(**ON)) as on,
        Memory(database_url, llm, Settings(llm="offline")) as off,
    ):
        await observed(on, "Tea is a drink.")
        await rows(
            on,
            "INSERT INTO memory.observations"
            " (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version, cold)"
            " SELECT agent_key, scope_id, n, format('The tea of %s was %s.', CASE n % 2 WHEN 0 THEN 'Anna' ELSE 'Bo' END,"
            " CASE WHEN n % 500 = 7 THEN 'pearl' ELSE 'green' END),"
            " now() - interval '1 day' + n * interval '1 second', 'observe', 1, n % 10 <> 7"
            " FROM memory.scopes CROSS JOIN generate_series(2, 6000) n WHERE owner = 'u:mia'",
        )
        await rows(on, "UPDATE memory.scopes SET last_seq = 6000 WHERE owner = 'u:mia'")
        await rows(on, "ANALYZE memory.observations")
        for query, top_k in (("tea", 5), ("green tea", 5), ("pearl", 5), ("tea after:2020-01-01", 5)):
            hits = (await on.search(query, **MIA, top_k=top_k, explain=True)).results
            assert len(hits) == top_k
            assert not any(hit.explanation and hit.explanation.cold for hit in hits)
        assert await found(on, "tea", top_k=4) == ["o1-1", "o1-5997", "o1-5987", "o1-5977"]  # the shortest, the newest
        assert await found(on, "pearl", top_k=13) == await found(off, "pearl", top_k=13)
        assert len(await found(on, "drink", top_k=5)) == 1  # the one that holds it was stored first, and is hot
        await chill(on, "o1-1")
        assert await found(on, "drink", top_k=5) == await found(off, "drink", top_k=5) == ["o1-1"]


@pytest.mark.slow
async def test_everything_that_shows_the_stage_knows_the_tier(tiered: Memory, clock: Clock) -> None:
    one = await observed(tiered, "Boat.", **LITTLE)
    clock.now = MONDAY + timedelta(days=100)
    await tiered.work.maintain()
    shown = await tiered.observations.get(one, **MIA, explain=True)
    assert shown.lifecycle is not None
    assert shown.lifecycle.tier == "cold"
    assert await rows(tiered, "SELECT tier FROM memory.v_lifecycle") == [("cold",)]
    exported = [line async for line in tiered.people.export(**MIA)]
    assert [line.tier for line in exported if isinstance(line, ExportedObservation)] == ["cold"]


async def test_users_see_what_is_cold_of_their_own_alone(database_url: str, llm: Scripted) -> None:
    async with Memory(database_url, llm, Settings(**ON)) as on:
        mine = await observed(on, "The lantern is red.")
        theirs = await observed(on, "The lantern is blue.", user_id="jonas")
        await chill(on, mine, theirs)
        assert await found(on) == [mine]
        assert await found(on, **JONAS) == [theirs]


async def test_superseded_is_never_cold(memory: Memory) -> None:
    one = await observed(memory, "The gate is 5.", fact_key="gate")
    await observed(memory, "The gate is 6.", fact_key="gate")
    with pytest.raises(DatabaseError, match="cold"):
        await chill(memory, one)
