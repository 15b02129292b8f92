"""How sure a link is: surer each time it is seen again, less sure with age (B.4). The same as in SQL (`decay_links.sql`).

A confidence is 0 to 1; None, of a link that was never seen again and has lost nothing, counts as 1.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from math import ceil
from typing import NamedTuple

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.repositories import sweeps

GAIN = 0.05
WINDOW = timedelta(days=90)
LOSS = 0.1  # of each window that has begun, after the first
LEAST = 0.1


class Decayed(NamedTuple):
    """`until`: up to when the confidence has been reduced for its age; the same moment as before if it hasn't."""

    confidence: float | None
    until: datetime


def reinforced(confidence: float | None, gain: float = GAIN) -> float:
    """Of a link that is seen again. A gain below 0 is none."""
    return min(1.0, round((1.0 if confidence is None else confidence) + max(gain, 0.0), 9))


def decayed(confidence: float | None, since: datetime, at: datetime) -> Decayed:
    """Of a link last seen, or charged, at `since`. `until` moves on by the windows that are charged, and no further.

    So charging it again, or day by day, comes to the same. It never falls below `LEAST`, and never rises.
    """
    now = 1.0 if confidence is None else confidence
    windows = min(ceil((at - since) / WINDOW - 1), ceil(round((now - LEAST) / LOSS, 6)))
    if windows <= 0:
        return Decayed(confidence, since)
    return Decayed(max(round(now - LOSS * windows, 9), LEAST), since + windows * WINDOW)


async def sweep(session: Session, agent_id: str | None, most: int, now: datetime, settings: Settings) -> int:
    """Reduces the confidence of at most so many links that are due; how many."""
    return await sweeps.decay_links(session, agent_id, min(most, settings.maintenance_batch), now)
