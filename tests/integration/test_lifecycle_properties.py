"""What holds of sweeps whatever is remembered: again, in another order, day by day, and what they never touch."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, get_args

import pytest

from memory_sql.config import Settings
from memory_sql.db.repositories.sweeps import BEGINNING, Batch, Swept
from memory_sql.domain.observations import Policy
from memory_sql.domain.results import MaintainResult
from memory_sql.lifecycle import archival, stages, tiers
from memory_sql.memory import Memory
from tests.database import rows, serving
from tests.factories import MONDAY, Clock
from tests.fakes import Scripted
from tests.sizes import few_in_ci

Step = Callable[..., Awaitable[Swept]]
Picture = dict[str, tuple[str, str, bool]]
"""Status and stage of each observation, and whether it is cold, by its text."""

CATEGORIES = (None, "fact", "fact", "moment", "correction", "decision", "preference")
SETTINGS = Settings(
    llm="offline",
    lifecycle=True,
    archival=True,
    tiering=True,
    archival_days=60,
    archival_importance=0.6,
    commitment_days=90,
)


async def remembered(memory: Memory, agent: str, seed: int, count: int = 40) -> None:
    """The same for each agent. Some are confirmed, disputed, used, superseded, held, or have a policy."""
    of, whose = random.Random(seed), dict[str, Any](agent_id=agent, user_id="mia")
    for n in range(count):
        observed = await memory.observe(
            f"Boat {n}.",
            **whose,
            observed_at=MONDAY - timedelta(days=of.choice([0, 0, 10, 40, 100, 300])),
            confidence=of.choice([None, 0.2, 0.5, 0.8, 0.95]),
            importance=of.choice([None, 0.1, 0.3, 0.5, 0.9]),
            category=of.choice(CATEGORIES),
            fact_key=of.choice([None, None, None, f"k{n % 3}"]),
        )
        what, policy = of.randrange(8), of.choice([None, None, None, *get_args(Policy)])
        if policy is not None:
            await memory.observations.mark(observed.id, **whose, policy=policy)
        if observed.status != "active":  # a newer one has the same key
            continue
        if what == 0:
            await memory.observations.confirm(observed.id, **whose)
        elif what == 1:
            await memory.observations.dispute(observed.id, **whose)
        elif what == 2:
            await memory.holds.place(agent_id=agent, observation_id=observed.id)
        elif what == 3:
            await rows(
                memory,
                "INSERT INTO memory.observation_retrievals (agent_key, scope_id, seq, day, surface, times)"
                " SELECT agent_key, scope_id, seq, :day, 'search', :times FROM memory.observations"
                " JOIN memory.agents USING (agent_key) WHERE agent_id = :agent AND content = :content",
                **{"day": MONDAY.date(), "times": of.randrange(1, 12), "agent": agent, "content": f"Boat {n}."},
            )


async def swept(memory: Memory, agent: str, now: datetime, *steps: Step, most: int = 7) -> int:
    """How many changed, in batches."""
    changed = 0
    for step in steps:
        after = BEGINNING
        while True:
            async with serving(memory) as unit:
                done = await step(unit, batch=Batch(agent, after, most, most), settings=SETTINGS, now=now)
            changed += done.changed
            if done.last is None:
                break
            after = done.last
    return changed


async def picture(memory: Memory, agent: str) -> Picture:
    found = await rows(
        memory,
        "SELECT o.content, coalesce(t.status, 'active'), coalesce(t.stage, 'candidate'), o.cold FROM memory.observations o"
        " JOIN memory.agents a USING (agent_key) LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq)"
        " WHERE a.agent_id = :agent",
        agent=agent,
    )
    return {content: (status, stage, cold) for content, status, stage, cold in found}


async def kept(memory: Memory, agent: str) -> dict[str, str]:
    """What is protected, and what is held, by its text."""
    found = await rows(
        memory,
        "SELECT o.content, CASE WHEN memory.is_kept_as_it_is(o.agent_key, o.scope_id, o.seq) THEN 'held' ELSE 'protected' END"
        " FROM memory.observations o JOIN memory.agents a USING (agent_key)"
        " LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq)"
        " WHERE a.agent_id = :agent"
        " AND (t.policy = 'protected' OR memory.is_kept_as_it_is(o.agent_key, o.scope_id, o.seq))",
        agent=agent,
    )
    return dict(found)


@pytest.fixture
async def timed_on(database_url: str, llm: Scripted, clock: Clock) -> Any:
    async with Memory(database_url, llm, SETTINGS, clock=clock) as memory:
        yield memory
        assert await memory.admin.verify() == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", few_in_ci([1, 2, 3], [1]))
async def test_neither_order_nor_batches_nor_another_time_make_a_difference(timed_on: Memory, seed: int) -> None:
    memory, now = timed_on, MONDAY + timedelta(days=120)
    for agent in ("ada", "bob"):
        await remembered(memory, agent, seed)
    before, untouched = await picture(memory, "ada"), await kept(memory, "ada")
    assert await swept(memory, "ada", now, stages.sweep, archival.sweep, tiers.sweep) > 10
    assert await swept(memory, "bob", now, tiers.sweep, archival.sweep, stages.sweep, most=1000) > 10
    after = await picture(memory, "ada")
    assert after == await picture(memory, "bob")
    assert await swept(memory, "ada", now, tiers.sweep, stages.sweep, archival.sweep, stages.sweep) == 0
    assert after == await picture(memory, "ada")
    assert {"held", "protected"} <= {*untouched.values()}
    for content, why in untouched.items():
        assert "archived" not in after[content]
        assert not after[content][2]
        if why == "held" or before[content][0] != "active":
            assert after[content] == before[content]
    assert {status for status, _, _ in after.values()} == {"active", "superseded", "archived"}
    assert {status for status, _, cold in after.values() if cold} == {"active", "archived"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", few_in_ci([1, 2], [2]))
async def test_day_by_day_comes_to_the_same_as_once_at_the_end(timed_on: Memory, clock: Clock, seed: int) -> None:
    """But for what was promoted while it was warm and has cooled without fading: it keeps its stage.

    All of maintenance: what expires, ages and fades, some of it for several reasons.
    """
    memory, days = timed_on, 130
    for agent in ("ada", "bob"):
        await remembered(memory, agent, seed, count=25)
    await rows(
        memory,
        "UPDATE memory.observations SET until = cast(:day AS date) + 9 * (length(content) + seq) % 120 WHERE seq % 4 = 1",
        day=MONDAY.date(),
    )
    for day in range(1, days + 1, 3):  # more often is only slower
        clock.now = MONDAY + timedelta(days=day)
        await memory.work.maintain(agent_id="ada")
    await memory.work.maintain(agent_id="bob")
    assert await memory.work.maintain() == MaintainResult(messages=0, complete=True)
    daily, once = await picture(memory, "ada"), await picture(memory, "bob")
    assert {content: (status, cold) for content, (status, _, cold) in daily.items()} == {
        content: (status, cold) for content, (status, _, cold) in once.items()
    }
    assert {status for status, _, _ in once.values()} == {"active", "archived", "evicted", "superseded"}
    in_use = {content: stage for content, (status, stage, _) in once.items() if status == "active"}
    assert "stale" in in_use.values()
    for content, stage in in_use.items():
        assert stage == daily[content][1] or (stage == "candidate" and daily[content][1] in ("validated", "active"))
    told = "SELECT DISTINCT detail->>'why' FROM memory.events WHERE kind = 'status' AND detail ? 'why'"
    assert {"age", "expired", "speculative"} <= {why for (why,) in await rows(memory, told)}
