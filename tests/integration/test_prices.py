"""What models cost, at the price of the day that the operator has set."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.domain.prices import Price
from memory_sql.errors import BudgetError, InputError
from memory_sql.memory import Memory
from tests.commands import memory_sql
from tests.database import rows
from tests.factories import message
from tests.fakes import Scripted, extracted

COST = "SELECT day, cost, currency FROM memory.v_model_cost ORDER BY day"
SETTINGS = Settings(formation_min_messages=1, consolidation_threshold=1000)
USD: dict[str, Any] = {"currency": "USD", "input_per_million": "0.25", "output_per_million": 2}


class Day:
    def __init__(self) -> None:
        self.day = 1

    def __call__(self) -> datetime:
        return datetime(2026, 3, self.day, 12, tzinfo=UTC)


async def form(memory: Memory, llm: Scripted, clock: Day, *days: int) -> None:
    for day in days:
        clock.day = day
        name = f"on-{day}"
        await memory.add([message("I keep bees.")], agent_id="ada", user_id="mia", conversation_id=name)
        llm.then(extracted((f"Mia kept bees on day {day}.", "individual")))
        await memory.conversations.form(agent_id="ada", conversation_id=name)


async def test_each_day_has_the_price_that_held_then(database_url: str, llm: Scripted) -> None:
    clock = Day()
    async with Memory(database_url, llm, SETTINGS, clock=clock) as memory:
        await form(memory, llm, clock, 1, 2, 3, 4)
        assert [cost for _, cost, _ in await rows(memory, COST)] == [None] * 4
        assert (await memory.admin.stats(agent_id="ada")).costs == {}
        await memory.models.set_price("scripted", valid_from=date(2026, 3, 2), **USD)
        await memory.models.set_price("scripted", valid_from=date(2026, 3, 4), **{**USD, "currency": "EUR"})
        await memory.models.set_price("another", **{**USD, "input_per_million": 100})
        found = [(day.day, cost, currency) for day, cost, currency in await rows(memory, COST)]
        one = Decimal(100) * Decimal("0.25") / 10**6 + Decimal(10) * 2 / 10**6
        assert found == [(1, None, None), (2, one, "USD"), (3, one, "USD"), (4, one, "EUR")]
        assert (await memory.admin.stats(agent_id="ada")).costs == {"EUR": one, "USD": 2 * one}


async def test_what_models_cost_is_told_by_day(database_url: str, llm: Scripted) -> None:
    clock = Day()
    async with Memory(database_url, llm, SETTINGS, clock=clock) as memory:
        await form(memory, llm, clock, 1, 2, 3, 4)
        await rows(memory, "UPDATE memory.runs SET started_at = started_at - interval '1 day' WHERE run_id = 2")
        await rows(memory, "UPDATE memory.runs SET state = 'failed', error_code = 'answer' WHERE run_id = 4")
        await memory.models.set_price("scripted", valid_from=date(2026, 3, 2), **USD)
        found = await memory.work.costs(agent_id="ada")
        one = Decimal(100) * Decimal("0.25") / 10**6 + Decimal(10) * 2 / 10**6
        assert [(day.day.day, day.runs, day.failures) for day in found] == [(4, 1, 1), (3, 1, 0), (1, 2, 0)]
        assert [day.costs for day in found[1:]] == [{"USD": one}, {}]
        assert [(day.input_tokens, day.output_tokens) for day in found[1:]] == [(100, 10), (200, 20)]
        assert [day.day.day for day in await memory.work.costs(days=2)] == [4, 3]
        assert await memory.work.costs(agent_id="eve") == []
        with pytest.raises(InputError):
            await memory.work.costs(days=0)


async def test_work_waits_for_the_next_day_when_its_money_is_spent(database_url: str, llm: Scripted) -> None:
    """Each currency by itself; what has no price costs nothing."""
    clock, settings = Day(), SETTINGS.model_copy(update={"daily_cost": 0.00008})  # a run costs 0.000045
    async with Memory(database_url, llm, settings, clock=clock) as memory:
        await form(memory, llm, clock, 1, 1)
        await memory.models.set_price("scripted", valid_from=date(2026, 3, 2), **USD)
        clock.day = 2
        for n in range(2):
            await memory.add([message("I keep bees.")], agent_id="ada", user_id="mia", conversation_id=f"two-{n}")
            llm.then(extracted((f"Mia kept {n} bees.", "individual")))
            await memory.conversations.form(agent_id="ada", conversation_id=f"two-{n}")
        await memory.add([message("I keep bees.")], agent_id="ada", user_id="mia", conversation_id="late")
        with pytest.raises(BudgetError, match=r"daily cost of 0\.00"):
            await memory.conversations.form(agent_id="ada", conversation_id="late")
        clock.day = 3
        llm.then(extracted(("Mia keeps bees.", "individual")))
        assert (await memory.conversations.form(agent_id="ada", conversation_id="late")).messages == 1


async def test_price_of_the_same_day_replaces_the_one_before(memory: Memory) -> None:
    for output in (2, 3):
        await memory.models.set_price("m", valid_from=date(2026, 1, 1), **{**USD, "output_per_million": output})
    await memory.models.set_price("m", valid_from=date(2026, 2, 1), **USD)
    await memory.models.set_price("a", valid_from=date(2026, 2, 1), **USD)
    told = [(each.model, each.valid_from.month, int(each.output_per_million)) for each in await memory.models.prices()]
    assert told == [("a", 2, 2), ("m", 2, 2), ("m", 1, 3)]
    assert await memory.admin.verify() == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"input_per_million": -1},
        {"input_per_million": float("nan")},
        {"output_per_million": "1e7"},
        {"output_per_million": "much"},
        {"output_per_million": True},
        {"currency": "usd"},
        {"currency": "US$"},
        {"valid_from": datetime(2026, 1, 1)},  # noqa: DTZ001 (a moment, where a day is wanted)
    ],
)
async def test_wrong_price_is_refused_by_name(memory: Memory, wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(InputError, match=name):
        await memory.models.set_price("m", **{**USD, **wrong})
    with pytest.raises(InputError, match="model"):
        await memory.models.set_price(" ", **USD)
    assert await memory.models.prices() == []


def test_prices_by_the_command_line(database_url: str) -> None:
    def model(*args: str, code: int = 0) -> Any:
        return memory_sql("model", *args, "--url", database_url, code=code)

    assert model("prices").out == "no prices yet\n"
    asked = ("set-price", "gpt-5-mini", "--input", "0.25", "--output", "2", "--currency", "USD")
    line = "gpt-5-mini  from 2026-01-01: 0.25 in, 2 out, USD for a million tokens\n"
    assert model(*asked, "--from", "2026-01-01").out == model("prices").out == line
    assert model(*asked, "--from", "soon", code=1).err == "memory-sql: --from must be a day: 2026-03-01\n"
    (price,) = model("prices", "--json").rows
    assert Price(**price).input_per_million == Decimal("0.25")
