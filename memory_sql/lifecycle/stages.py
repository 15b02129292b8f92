"""The sweep that stores the stage of each observation, in batches: searches go by it.

Scores are computed for it and thrown away; stored is a stage, and only where it is another than before.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.repositories.sweeps import Batch, Swept, sweep_stages


def rules_of(settings: Settings) -> dict[str, Any]:
    return {
        "promote": settings.stage_promote,
        "stale": settings.stage_stale,
        "archive": settings.stage_archive,
        "protected": settings.protected_categories,
    }


async def sweep(session: Session, batch: Batch, settings: Settings, now: datetime) -> Swept:
    """The next batch. What is held, set aside, superseded or archived is left alone; what somebody works on comes later."""
    return await sweep_stages(session, batch, rules_of(settings), now)
