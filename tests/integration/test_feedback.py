"""What people and agents think of an observation: summed up by day, and forgotten with it."""

from __future__ import annotations

import asyncio
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memory_sql.config import Settings
from memory_sql.db.roles import Roles
from memory_sql.domain.exports import ExportedObservation
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError, NotFoundError
from memory_sql.memory import Memory
from tests.commands import memory_sql
from tests.conftest import as_login
from tests.database import rows, statements
from tests.factories import Clock
from tests.fakes import Scripted

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
JONAS: dict[str, Any] = {**ADA, "user_id": "jonas"}
KEPT = "SELECT seq, day, total, times FROM memory.observation_feedback ORDER BY seq, day"
MONDAY = date(2026, 3, 2)


async def test_values_of_a_day_are_summed_up(timed: Memory, clock: Clock) -> None:
    one = (await timed.observe("Mia drinks tea.", **MIA)).id
    with statements(timed) as seen:
        await timed.observations.feedback(one, 1, **MIA)
    assert len([statement for statement in seen if "observation_feedback" in statement]) == 1
    await timed.observations.feedback(one, -0.5, **MIA)
    clock.goes_on(days=1)
    await timed.observations.feedback(one, 0, **MIA)
    assert await rows(timed, KEPT) == [(1, MONDAY, 0.5, 2), (1, MONDAY + timedelta(days=1), 0, 1)]
    assert await rows(timed, "SELECT observation_id, owner_id, total, times FROM memory.v_feedback ORDER BY day") == [
        (one, "mia", 0.5, 2),
        (one, "mia", 0, 1),
    ]
    assert (await timed.observations.get(one, **MIA)).version == 1


@pytest.mark.parametrize("value", [1.01, -2, float("nan"), float("inf"), True, None, "1"])
async def test_value_is_a_number_from_minus_one_to_one(timed: Memory, value: Any) -> None:
    one = (await timed.observe("Mia drinks tea.", **MIA)).id
    with pytest.raises(InputError, match="value must be a number from -1 to 1"):
        await timed.observations.feedback(one, value, **MIA)
    assert await rows(timed, KEPT) == []


async def test_who_may_not_see_it_says_nothing_of_it(timed: Memory) -> None:
    one = (await timed.observe("Mia drinks tea.", **MIA)).id
    for missing, whose in ((one, JONAS), ("o1-2", MIA), (one, {**MIA, "agent_id": "bob"})):
        with pytest.raises(NotFoundError):
            await timed.observations.feedback(missing, 1, **whose)
    await timed.observations.quarantine(one, **MIA)
    with pytest.raises(NotFoundError):
        await timed.observations.feedback(one, 1, **MIA)
    assert await rows(timed, KEPT) == []


async def test_it_is_forgotten_with_the_observation(timed: Memory) -> None:
    one = (await timed.observe("Mia drinks tea.", **MIA)).id
    await timed.observations.feedback(one, 1, **MIA)
    await timed.forget(Selection(observation_id=one), **ADA)
    assert await rows(timed, KEPT) == []


async def test_it_goes_with_the_agent_and_follows_a_new_id(timed: Memory) -> None:
    one = (await timed.observe("Mia drinks tea.", **MIA)).id
    await timed.observations.feedback(one, 1, **MIA)
    await timed.people.rename(**ADA, kind="user", old="mia", new="maria")
    assert await rows(timed, "SELECT owner_id, total FROM memory.v_feedback") == [("maria", 1)]
    await timed.observations.feedback(one, 1, agent_id="ada", user_id="maria")
    assert await rows(timed, "SELECT owner_id, total FROM memory.v_feedback") == [("maria", 2)]
    await timed.forget(Selection(everything=True), **ADA)
    assert await rows(timed, KEPT) == []


async def test_own_is_exported(timed: Memory) -> None:
    one = (await timed.observe("Mia drinks tea.", **MIA)).id
    await timed.observations.feedback(one, 0.5, **MIA)
    exported = [line async for line in timed.people.export(**MIA)]
    (found,) = [line for line in exported if isinstance(line, ExportedObservation)]
    assert [(item.total, item.times) for item in found.feedback] == [(0.5, 1)]


async def test_old_days_go(timed: Memory, clock: Clock) -> None:
    one = (await timed.observe("Mia drinks tea.", **MIA)).id
    await timed.observations.feedback(one, 1, **MIA)
    clock.goes_on(days=90)
    await timed.observations.feedback(one, 1, **MIA)
    assert (await timed.work.maintain()).counts == 0
    clock.goes_on(days=1)
    assert (await timed.work.maintain()).counts == 1
    assert await rows(timed, KEPT) == [(1, MONDAY + timedelta(days=90), 1, 1)]


async def test_many_at_once_are_all_counted(timed: Memory) -> None:
    one = (await timed.observe("Mia drinks tea.", **MIA)).id
    await asyncio.gather(*(timed.observations.feedback(one, value, **MIA) for value in [1, -0.5] * 10))
    assert [(total, times) for _, _, total, times in await rows(timed, KEPT)] == [(5, 20)]


async def test_who_says_it_while_it_is_forgotten_leaves_nothing(timed: Memory) -> None:
    for _ in range(5):
        one = (await timed.observe("Mia drinks tea.", **MIA)).id
        said = (timed.observations.feedback(one, 1, **MIA) for _ in range(3))
        done = await asyncio.gather(*said, timed.forget(Selection(observation_id=one), **ADA), return_exceptions=True)
        assert {type(outcome) for outcome in done if isinstance(outcome, BaseException)} <= {NotFoundError}
        assert await rows(timed, KEPT) == []


async def test_behind_walls(walled_database: str, roles: Roles, llm: Scripted, settings: Settings) -> None:
    async with Memory(as_login(walled_database, roles), llm, settings) as walled:
        one = (await walled.observe("Mia drinks tea.", **MIA)).id
        await walled.observations.feedback(one, 1, **MIA)
        with pytest.raises(NotFoundError):
            await walled.observations.feedback(one, 1, **JONAS)
    async with Memory(walled_database, llm, settings) as memory:
        assert await rows(memory, "SELECT total, times FROM memory.observation_feedback") == [(1, 1)]


def test_command(database_url: str) -> None:
    to = ("--agent", "ada", "--user", "mia", "--url", database_url)
    one = memory_sql("observe", "Mia drinks tea.", *to, "--json").value["id"]
    assert memory_sql("observation", "feedback", one, "--value=-1", *to).out == f"{one}  -1\n"
    assert memory_sql("observation", "feedback", one, "--value", "0.5", *to, "--json").value == {
        "id": one,
        "value": 0.5,
    }
    assert "from -1 to 1" in memory_sql("observation", "feedback", one, "--value", "2", *to, code=1).err


@pytest.mark.slow
@given(
    said=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.sampled_from([-1, -0.5, 0, 0.25, 1])), max_size=12)
)
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_sums_are_those_of_what_was_said(timed: Memory, clock: Clock, said: list[tuple[int, int, float]]) -> None:
    await timed.observe("Mia drinks rum.", **MIA)
    await timed.forget(Selection(everything=True), **ADA)
    ids = [(await timed.observe(text, **MIA)).id for text in ("Mia drinks tea.", "Mia drinks coffee.")]
    start, expected = clock.now, dict[tuple[str, date], tuple[float, int]]()
    for which, day, value in said:
        clock.now = start + timedelta(days=day)
        await timed.observations.feedback(ids[which], value, **MIA)
        total, times = expected.get((ids[which], clock.now.date()), (0.0, 0))
        expected[ids[which], clock.now.date()] = total + value, times + 1
    clock.now = start
    found = await rows(timed, "SELECT observation_id, day, total, times FROM memory.v_feedback")
    assert {(one, day): (total, times) for one, day, total, times in found} == expected
