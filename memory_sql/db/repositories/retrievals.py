"""How often memory was queried and each observation retrieved: added to the counts of the day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Date,
    Double,
    Integer,
    TableClause,
    Text,
    and_,
    bindparam,
    cast,
    column,
    func,
    select,
    table,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.domain.ids import parse_observation_id
from memory_sql.domain.reading import Asked, Retrieved


def _table(name: str, columns: Mapping[str, Any]) -> TableClause:
    """By its name: what only reads, and counts that when it closes, needn't wait for SQLAlchemy to map all tables."""
    return table(name, column("agent_key", BigInteger), *(column(*item) for item in columns.items()), schema="memory")


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
_agents = _table("agents", {"agent_id": Text})
_retrievals = _table("retrievals", {name: kind for name, kind in _TYPES.items() if name != "agent_id"})
_insert = insert(_retrievals).from_select(
    [*_KEY, *_SUMS, "slowest_seconds"],
    select(_agents.c.agent_key, *(_asked.c[name] for name in (*_KEY[1:], *_SUMS, "slowest_seconds")))
    .join_from(_agents, _asked, _agents.c.agent_id == _asked.c.agent_id)
    .order_by(
        *(_agents.c.agent_key, *(_asked.c[name] for name in _KEY[1:]))
    ),  # the order in which everybody locks them
)
_ADD = _insert.on_conflict_do_update(
    index_elements=_KEY,
    set_={
        **{name: _retrievals.c[name] + _insert.excluded[name] for name in _SUMS},
        "slowest_seconds": func.greatest(_retrievals.c.slowest_seconds, _insert.excluded.slowest_seconds),
    },
)


async def add_retrievals(session: AsyncSession, asked: Sequence[Asked]) -> None:
    """Adds to the earlier counts; each agent, day, surface and reason once. Unknown agents are skipped."""
    await session.execute(_ADD, {name: [getattr(one, name) for one in asked] for name in _TYPES})


_OBSERVED = {
    "agent_id": Text,
    "scope_id": BigInteger,
    "seq": Integer,
    "day": Date,
    "surface": Text,
    "times": BigInteger,
}
_retrieved = (
    func.unnest(*(bindparam(name, type_=ARRAY(kind)) for name, kind in _OBSERVED.items()))
    .table_valued(*_OBSERVED, name="retrieved")
    .render_derived()
)
_observation = _table("observations", {"scope_id": BigInteger, "seq": Integer})
_of_observation = and_(
    _agents.c.agent_id == _retrieved.c.agent_id,
    _observation.c.agent_key == _agents.c.agent_key,
    _observation.c.scope_id == _retrieved.c.scope_id,
    _observation.c.seq == _retrieved.c.seq,
)
# Observations forgotten since no longer exist, and a locked row is about to be deleted: neither is waited for.
_there = (
    select(
        _observation.c.agent_key,
        _observation.c.scope_id,
        _observation.c.seq,
        *(_retrieved.c[name] for name in ("day", "surface", "times")),
    )
    .select_from(_retrieved)
    .join(_agents, _agents.c.agent_id == _retrieved.c.agent_id)
    .join(_observation, _of_observation)
    .with_for_update(key_share=True, read=True, of=_observation, skip_locked=True)
    .cte("there")
)
_OBSERVATION_KEY = ("agent_key", "scope_id", "seq", "day", "surface")
_counted = _table("observation_retrievals", {name: kind for name, kind in _OBSERVED.items() if name != "agent_id"})
_insert_retrieved = insert(_counted).from_select(
    [*_OBSERVATION_KEY, "times"],
    select(_there).order_by(*(_there.c[name] for name in _OBSERVATION_KEY)),  # the order in which everybody locks them
)
_ADD_RETRIEVED = _insert_retrieved.on_conflict_do_update(
    index_elements=_OBSERVATION_KEY, set_={"times": _counted.c.times + _insert_retrieved.excluded.times}
)


async def add_retrieved(session: AsyncSession, retrieved: Sequence[Retrieved]) -> None:
    """Adds to the earlier counts; each observation, day and surface once. Observations that no longer exist are skipped."""
    ids = [parse_observation_id(one.observation_id) for one in retrieved]
    own = {name: [getattr(one, name) for one in retrieved] for name in ("agent_id", "day", "surface", "times")}
    given = {**own, "scope_id": [scope for scope, _ in ids], "seq": [seq for _, seq in ids]}
    await session.execute(_ADD_RETRIEVED, given)


async def end_counts(session: AsyncSession, agent_id: str | None, before: date, limit: int) -> int:
    """Deletes counts of observations from before that day, at most `limit`, of one agent or all; returns how many."""
    found = await session.scalar(select(func.memory.end_counts(cast(agent_id, Text), before, limit)))
    return int(found or 0)
