"""How often memory was asked: added to the counts of the day, and summed up."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import cast

from sqlalchemy import ARRAY, BigInteger, Date, Double, Table, Text, bindparam, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import AgentRow, ObservationRow, RetrievalRow
from memory_sql.domain.reading import Asked, RetrievalStats

_TYPES = {
    "agent_id": Text,
    "day": Date,
    "surface": Text,
    "reason": Text,
    "queries": BigInteger,
    "without_hit": BigInteger,
    "seconds": Double,
    "slowest_seconds": Double,
}
_asked = (
    func.unnest(*(bindparam(name, type_=ARRAY(kind)) for name, kind in _TYPES.items()))
    .table_valued(*_TYPES, name="asked")
    .render_derived()
)
_KEY = ("agent_key", "day", "surface", "reason")
_SUMS = ("queries", "without_hit", "seconds")
_table = cast(Table, RetrievalRow.__table__)
_insert = insert(_table).from_select(
    [*_KEY, *_SUMS, "slowest_seconds"],
    select(AgentRow.agent_key, *(_asked.c[name] for name in (*_KEY[1:], *_SUMS, "slowest_seconds")))
    .join_from(AgentRow, _asked, AgentRow.agent_id == _asked.c.agent_id)
    .order_by(*(AgentRow.agent_key, *(_asked.c[name] for name in _KEY[1:]))),  # as all lock them
)
_ADD = _insert.on_conflict_do_update(
    index_elements=_KEY,
    set_={
        **{name: _table.c[name] + _insert.excluded[name] for name in _SUMS},
        "slowest_seconds": func.greatest(_table.c.slowest_seconds, _insert.excluded.slowest_seconds),
    },
)


async def add_retrievals(session: AsyncSession, asked: Sequence[Asked]) -> None:
    """Adds to what was counted before; each agent, day, surface and reason once. Agents that aren't there are left out."""
    await session.execute(_ADD, {name: [getattr(one, name) for one in asked] for name in _TYPES})


async def read_retrievals(session: AsyncSession, agent_key: int, since: date) -> RetrievalStats:
    """The sums of an agent from that day on."""
    row = RetrievalRow
    found = await session.execute(
        select(
            row.reason,
            func.sum(row.queries).cast(BigInteger),
            func.sum(row.without_hit).cast(BigInteger),
            func.sum(row.seconds),
            func.max(row.slowest_seconds),
        )
        .where(row.agent_key == agent_key, row.day >= since)
        .group_by(row.reason)
        .order_by(row.reason)
    )
    counted = found.all()
    searched = [one for one in counted if one.reason != "none"]
    fired = sum(one[1] for one in searched)
    return RetrievalStats(
        queries=sum(one[1] for one in counted),
        fired=fired,
        without_hit=sum(one[2] for one in searched),
        mean_ms=1000 * sum(one[3] for one in searched) / fired if fired else None,
        slowest_ms=1000 * max(one[4] for one in searched) if fired else None,
        reasons={one.reason: one[1] for one in counted},
    )


async def large_scopes(session: AsyncSession, agent_id: str, more_than: int) -> list[int]:
    """The ids of the agent's scopes that hold more observations than that."""
    found = await session.scalars(
        select(ObservationRow.scope_id)
        .join(AgentRow, AgentRow.agent_key == ObservationRow.agent_key)
        .where(AgentRow.agent_id == agent_id)
        .group_by(ObservationRow.scope_id)
        .having(func.count() > more_than)
        .order_by(ObservationRow.scope_id)
    )
    return list(found)
