"""How often memory was asked: added to the counts of the day, and summed up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from sqlalchemy import ARRAY, BigInteger, Date, Double, Table, Text, bindparam, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import AgentRow, RetrievalRow
from memory_sql.domain.reading import Asked

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
