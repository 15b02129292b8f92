"""What maintenance would leave of an agent's observations at other times: one statement."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, get_args

from sqlalchemy import ARRAY, BigInteger, DateTime, Text, bindparam, cast, column, func, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.config import Settings
from memory_sql.db.repositories.expiry import defaults_of
from memory_sql.domain.observations import Stage
from memory_sql.domain.results import LifecycleWeek

_STAGES = get_args(Stage)
_BESIDE = ("protected", "aged", "resolved", "evicted")
_f = func.memory.forecast(
    bindparam("agent_id", type_=Text),
    cast(bindparam("rules", type_=Text), JSONB),
    cast(bindparam("defaults", type_=Text), JSONB),
    bindparam("times", type_=ARRAY(DateTime(timezone=True))),
).table_valued(*(column(name, BigInteger) for name in ("n", *_STAGES, *_BESIDE)), name="forecast")
_WEEKS = select(_f).order_by(_f.c.n)


async def forecast(
    session: AsyncSession, agent_id: str, rules: Mapping[str, Any], settings: Settings, times: Sequence[datetime]
) -> Sequence[LifecycleWeek]:
    """One for each of these times, which begin now; none for an unknown agent."""
    given = {
        "agent_id": agent_id,
        "rules": json.dumps(rules),
        "defaults": json.dumps(defaults_of(settings)),
        "times": [*times],
    }
    found = (await session.execute(_WEEKS, given)).mappings()
    return [
        LifecycleWeek(
            at=times[row["n"] - 1],
            stages={stage: row[stage] for stage in _STAGES},
            protected=row["protected"],
            aged=row["aged"],
            resolved=row["resolved"],
            evicted=row["evicted"],
        )
        for row in found
    ]
