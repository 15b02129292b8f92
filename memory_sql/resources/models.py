"""The language models: whether they work, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from functools import partial

from memory_sql.db.principals import service
from memory_sql.db.repositories.prices import list_prices, set_price
from memory_sql.domain.prices import Price, amount_of, currency_of, day_of, model_of
from memory_sql.domain.results import ModelCheck
from memory_sql.jobs.checking import check_models
from memory_sql.resources.runtime import Face


class Models(Face):
    """The language models: whether they work, and what they cost."""

    async def check(self) -> Sequence[ModelCheck]:
        """Asks the configured models three tiny things, which cost some thousand tokens; stores nothing.

        One extraction (`fast_model`), one consolidation and one verdict (`slow_model`). Raises `ConfigurationError` where
        there is no model; what a model or its server does is in the result.
        """
        checks = await check_models(self._runtime.llm, self._settings, self._now())
        return [check.model_copy(update={"asked_by": await self._runtime.asked_by(check.model)}) for check in checks]

    async def prices(self) -> Sequence[Price]:
        """The prices that were set, in the order of the models, the newest price of each model first."""
        async with self._database.statement(principal=service(None)) as unit:
            return await list_prices(unit)

    async def set_price(
        self,
        model: str,
        *,
        input_per_million: Decimal | float,
        output_per_million: Decimal | float,
        currency: str,
        valid_from: date | None = None,
    ) -> Price:
        """Sets a model's prices of a million input and output tokens from `valid_from` on (UTC; None: today).

        `v_model_cost` uses them. They replace prices of the model from the same day. `model` is the name that the provider
        answered with, as `v_model_cost` shows it. Raises `InputError` unless prices are from 0 to 1,000,000.
        """
        price = Price(
            model=model_of(model),
            valid_from=day_of("valid_from", self._now().date() if valid_from is None else valid_from),
            currency=currency_of(currency),
            input_per_million=amount_of("input_per_million", input_per_million),
            output_per_million=amount_of("output_per_million", output_per_million),
        )
        await self._database.write(partial(set_price, price=price), principal=service(None))
        return price
