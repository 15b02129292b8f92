"""What expires (`memory.expiring`), and taking it out of use (`memory.expire`, which takes the locks itself), in batches."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Literal, NamedTuple

from sqlalchemy import BigInteger, DateTime, Integer, Text, bindparam, cast, column, func, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.config import Settings
from memory_sql.db.models import AgentRow
from memory_sql.db.repositories.sweeps import Batch, Swept, sweep_expiry
from memory_sql.domain.ids import observation_id

Why = Literal["speculative", "expired", "resolved"]
DEFAULTS = ("speculative_days", "commitment_days", "time_zone", "consolidation_threshold")


class Expiring(NamedTuple):
    """An observation that expires; `due_at`: since when. `expired` ones are archived, the others evicted."""

    agent_id: str
    id: str
    why: Why
    due_at: datetime


_BEHIND = (bindparam("agent_id", type_=Text), cast(bindparam("defaults", type_=Text), JSONB))
_NOW = bindparam("now", type_=DateTime(timezone=True))
_e = func.memory.expiring(*_BEHIND, _NOW).table_valued(
    column("agent_key", BigInteger),
    column("scope_id", BigInteger),
    column("seq", Integer),
    column("why", Text),
    column("due_at", DateTime(timezone=True)),
    name="expiring",
)
_LISTED = (
    select(AgentRow.agent_id, _e.c.scope_id, _e.c.seq, _e.c.why, _e.c.due_at)
    .join(_e, _e.c.agent_key == AgentRow.agent_key)
    .order_by(_e.c.due_at, _e.c.agent_key, _e.c.scope_id, _e.c.seq)
    .limit(bindparam("most", type_=BigInteger))
)
_COUNTED = select(_e.c.why, func.count().label("observations")).group_by(_e.c.why)


def defaults_of(settings: Settings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in DEFAULTS}


def _given(agent_id: str | None, settings: Settings, now: datetime) -> dict[str, Any]:
    return {"agent_id": agent_id, "defaults": json.dumps(defaults_of(settings)), "now": now}


async def expiring(
    session: AsyncSession, agent_id: str | None, settings: Settings, at: datetime, most: int
) -> list[Expiring]:
    """What would expire at that moment, whatever day that is, longest due first, at most so many."""
    found = await session.execute(_LISTED, {**_given(agent_id, settings, at), "most": most})
    return [Expiring(row.agent_id, observation_id(row.scope_id, row.seq), row.why, row.due_at) for row in found]


async def count_expiring(
    session: AsyncSession, agent_id: str | None, settings: Settings, at: datetime
) -> dict[str, int]:
    """How many, by why; none is left out."""
    found = await session.execute(_COUNTED, _given(agent_id, settings, at))
    return {row.why: row.observations for row in found}


async def expire(session: AsyncSession, batch: Batch, settings: Settings, now: datetime) -> Swept:
    """Takes out of use what expires now among the next that may; what somebody works on is left for later."""
    return await sweep_expiry(session, batch, defaults_of(settings), now)
