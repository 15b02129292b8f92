"""What models have cost, by day."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from itertools import groupby
from typing import Any

from sqlalchemy import BigInteger, Date, Numeric, Text, bindparam, cast, column, func, select, table
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models.base import SCHEMA
from memory_sql.domain.waiting import DailyCost


async def by_day(session: AsyncSession, agent_id: str | None, since: date) -> list[DailyCost]:
    """The days since then on which a run began, newest first; of one agent or all."""
    found = await session.execute(_OF_ALL if agent_id is None else _OF_ONE, {"agent_id": agent_id, "since": since})
    return [_summed(day, rows) for day, rows in groupby(found, key=lambda row: row.day)]


def _summed(day: date, rows: Iterator[Any]) -> DailyCost:
    each = list(rows)
    counts = {name: sum(int(getattr(row, name)) for row in each) for name in _COUNTS}
    return DailyCost(day=day, **counts, costs={row.currency: row.cost for row in each if row.currency is not None})


_COUNTS = ("runs", "failures", "input_tokens", "output_tokens")
_v = table(
    "v_model_cost",
    column("agent_id", Text),
    column("day", Date),
    column("currency", Text),
    column("cost", Numeric),
    *(column(name, BigInteger) for name in _COUNTS),
    schema=SCHEMA,
)
_OF_ALL = (
    select(_v.c.day, _v.c.currency, func.sum(_v.c.cost).label("cost"))
    .add_columns(*(cast(func.sum(_v.c[name]), BigInteger).label(name) for name in _COUNTS))
    .where(_v.c.day >= bindparam("since", type_=Date))
    .group_by(_v.c.day, _v.c.currency)
    .order_by(_v.c.day.desc(), _v.c.currency)
)
_OF_ONE = _OF_ALL.where(_v.c.agent_id == bindparam("agent_id", type_=Text))  # by runs_started_at_idx
