"""The sweep that says what is cold, in batches: searches rank that only if what is hot doesn't fill their result.

A tier is stored with the observation, where the indexes of words and vectors can use it. It changes no score.
"""

from __future__ import annotations

from datetime import datetime

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.repositories.sweeps import Batch, Swept, sweep_tiers


async def sweep(session: Session, batch: Batch, settings: Settings, now: datetime) -> Swept:
    """The next batch. What is held, set aside or superseded is left alone; what is protected is hot."""
    rules = {
        "demote": settings.tier_demote,
        "promote": settings.tier_promote,
        "days": settings.tier_days,
        "protected": settings.protected_categories,
    }
    return await sweep_tiers(session, batch, rules, now)
