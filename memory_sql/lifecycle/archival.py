"""The sweep that archives what is old, unimportant and hardly ever used, in batches.

What is archived is found by searches, with a penalty, and shown nowhere else. Its row and its history stay.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.repositories.sweeps import Batch, Swept, sweep_archival


def rules_of(settings: Settings) -> dict[str, Any]:
    return {
        "days": settings.archival_days,
        "importance": settings.archival_importance,
        "uses": settings.archival_uses,
        "protected": settings.protected_categories,
    }


async def sweep(session: Session, batch: Batch, settings: Settings, now: datetime) -> Swept:
    """The next batch. What is held, protected or a correction stays, and what has superseded another."""
    return await sweep_archival(session, batch, rules_of(settings), settings.consolidation_threshold, now)
