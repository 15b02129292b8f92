"""What expires: guesses that nobody has confirmed, plans whose day is over, and later what has long been resolved.

Set-based, in bounded batches, each a transaction of its own. It doesn't matter how often or when the sweep runs: what is due
is reckoned from the rows alone, so a sweep a day comes to the same as one at the end. `due` is its dry run, for any day.
"""

from __future__ import annotations

from datetime import datetime

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.repositories import expiry
from memory_sql.db.repositories.expiry import Expiring
from memory_sql.db.repositories.sweeps import Batch, Swept


async def due(
    session: Session, agent_id: str | None, settings: Settings, at: datetime, most: int = 20
) -> tuple[dict[str, int], list[Expiring]]:
    """How many would expire at that moment, by why, and the first of them. Nothing is changed.

    What is resolved and due to be evicted by then, too, counts once, as `expired`.
    """
    counts = await expiry.count_expiring(session, agent_id, settings, at)
    return counts, await expiry.expiring(session, agent_id, settings, at, most) if counts else []


async def sweep(session: Session, batch: Batch, settings: Settings, now: datetime) -> Swept:
    """The next batch. A plan that is over and was so for long is archived by one batch and evicted by the next."""
    return await expiry.expire(session, batch, settings, now)
