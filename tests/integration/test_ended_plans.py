"""What a consolidation makes of plans: which of them it is told to be over, and which say the same (R201–R203)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.memory import Memory
from tests.factories import Clock
from tests.fakes import Scripted

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
SETTINGS = Settings(llm="offline", consolidation_threshold=3)
PLAN, TOLD = "Mia will paint the boat.", "2026-03-02T09:00Z (Monday)"


@dataclass(frozen=True, slots=True)
class World:
    memory: Memory
    llm: Scripted
    clock: Clock

    async def said(self, what: str, until: date | None = None) -> str:
        return (await self.memory.observe(what, **MIA, observed_at=self.memory.now(), until=until)).id

    async def consolidated(self, text: str, **more: Any) -> list[str]:
        """What the model was told of plans that are over."""
        self.llm.then(json.dumps({"text": text, **more}))
        await self.memory.scopes.consolidate(**ADA, scope_id="s1")
        _, begun, rest = self.llm.requests[-1].prompt.partition(" begin ended\n")
        return rest.partition("\n---")[0].splitlines() if begun else []

    async def fulfilled(self, one: str) -> None:
        self.clock.goes_on(days=1)
        await self.memory.observations.resolve(one, "fulfilled", **MIA)
        self.clock.goes_on(days=1)


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    llm, clock = Scripted(), Clock()
    async with Memory(database_url, llm, SETTINGS, clock=clock) as memory:
        yield World(memory, llm, clock)
        assert list(await memory.admin.verify()) == []


async def test_plan_that_waits_and_ends_is_not_told(world: World) -> None:
    """The text doesn't hold it, so forgetting it wouldn't find what a model made of it there."""
    tea, boat = "Mia drinks green tea.", "The boat lies in Kiel."
    await world.said(tea)
    plan = await world.said("The fence is to be painted on 12 evenings.")
    await world.said(boat)
    assert await world.consolidated(f"{tea} The fence is to be painted on 14 evenings. {boat}") == []
    assert "14" not in str(await world.memory.context(**MIA))  # left out, and the plan waits for another text
    await world.fulfilled(plan)
    await world.said("Mia has a cat.")
    assert await world.consolidated(f"{tea} {boat} Mia has a cat.") == []


async def test_plan_is_told_again_after_the_text_that_was_told_of_it_is_undone(world: World) -> None:
    plan = await world.said(PLAN)
    assert await world.consolidated(PLAN) == []
    await world.fulfilled(plan)
    await world.said("Mia has a cat.")
    assert await world.consolidated("Mia has a cat.", left_out=[{"what": "s1", "why": "over"}]) != []
    await world.memory.scopes.undo(**ADA, scope_id="s1")
    assert PLAN in str(await world.memory.context(**MIA))
    world.clock.goes_on(days=1)
    await world.said("Mia has a dog.")
    told = await world.consolidated("Mia has a cat and a dog.", left_out=[{"what": "s1", "why": "over"}])
    assert told == [f'fulfilled {TOLD} "{PLAN}"']


async def test_plan_is_told_that_a_sweep_ended_while_the_model_wrote(world: World) -> None:
    await world.said(PLAN, date(2026, 3, 3))

    async def swept_meanwhile(_: object) -> str:
        world.clock.goes_on(days=3)
        assert (await world.memory.work.maintain()).expired == 1
        world.clock.goes_on(days=1)
        return json.dumps({"text": PLAN})

    world.llm.then(swept_meanwhile)
    await world.memory.scopes.consolidate(**ADA, scope_id="s1")
    await world.said("Mia has a cat.")
    told = await world.consolidated("Mia has a cat.", left_out=[{"what": "s1", "why": "over"}])
    assert told == [f'expired {TOLD} "{PLAN}"']


async def test_plan_with_another_day_stands_behind_none(world: World) -> None:
    """It would be over with the day of the older one."""
    older = await world.said(PLAN, date(2026, 3, 6))
    world.clock.goes_on(hours=1)
    newer = await world.said("The boat Mia will paint.", date(2026, 3, 20))
    await world.consolidated(PLAN, same_as=[{"n": "n2", "same_as": "n1"}])
    world.clock.goes_on(days=7)
    await world.memory.work.maintain()
    found = [await world.memory.observations.get(one, **MIA) for one in (older, newer)]
    assert [one.status for one in found] == ["archived", "active"]


async def test_plan_that_is_taken_back_after_the_text_let_it_go_is_not_lost(world: World) -> None:
    plan = await world.said(PLAN)
    await world.said("Mia has a cat.")
    await world.consolidated(f"{PLAN} Mia has a cat.")
    await world.fulfilled(plan)
    await world.said("Mia has a dog.")
    await world.consolidated("Mia has a cat. Mia has a dog.", left_out=[{"what": "s1", "why": "over"}])
    await world.memory.observations.resolve(plan, None, **MIA)
    assert "boat" in str(await world.memory.context(**MIA))


async def test_text_that_was_told_of_another_end_goes(world: World) -> None:
    plan = await world.said(PLAN)
    await world.said("Mia has a cat.")
    await world.consolidated(f"{PLAN} Mia has a cat.")
    await world.fulfilled(plan)
    await world.said("Mia has a dog.")
    await world.consolidated(
        "Mia has a cat. Mia has a dog. The boat was painted by Mia.", left_out=[{"what": "s1", "why": "over"}]
    )
    world.clock.goes_on(days=1)
    await world.memory.observations.resolve(plan, "expired", **MIA)
    assert "was painted" not in str(await world.memory.context(**MIA))
