"""How many observations would be in each stage week by week, by the functions that the sweeps go by, at other times."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.queries.forecast import forecast
from memory_sql.domain.ids import moved
from memory_sql.domain.results import LifecycleWeek
from memory_sql.lifecycle import archival, stages

WEEK = 7


async def weeks(
    session: Session, agent_id: str, days: int, settings: Settings, now: datetime
) -> Sequence[LifecycleWeek]:
    """Now, and after each whole week of those days; none for an unknown agent. In one statement."""
    rules = {
        **stages.rules_of(settings),
        **archival.rules_of(settings),
        "archival": settings.archival,
        "count_days": settings.count_days,
    }
    times = [moved(now, timedelta(days=day)) for day in range(0, days + 1, WEEK)]
    return await forecast(session, agent_id, rules, settings, times)
