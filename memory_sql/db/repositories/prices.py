"""The prices of the models, as the operator sets them."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import PriceRow, columns_of
from memory_sql.domain.prices import Price

_PRICE = columns_of(PriceRow, Price.model_fields)


async def list_prices(session: AsyncSession) -> list[Price]:
    """In the order of the models, the newest price of each first."""
    found = await session.execute(select(*_PRICE).order_by(PriceRow.model, PriceRow.valid_from.desc()))
    return [Price(**row) for row in found.mappings()]


async def set_price(session: AsyncSession, price: Price) -> None:
    """Replaces the price of the same model and day."""
    told = upsert(PriceRow).values(price.model_dump())
    changed = {name: told.excluded[name] for name in ("currency", "input_per_million", "output_per_million")}
    await session.execute(told.on_conflict_do_update(index_elements=["model", "valid_from"], set_=changed))
