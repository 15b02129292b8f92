"""What time has made superfluous: set-based sweeps, in bounded batches, each a transaction of its own.

The texts of messages whose retention is over go; the rows stay as stubs, to which evidence leads and by which a message
is known when it comes again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.repositories.messages import BEGINNING, MessageRepository, Place

MESSAGES_PER_SESSION = 10  # locked are so many conversations as a batch is likely to need


@dataclass(frozen=True, slots=True)
class Sweep:
    """How far a sweep has come: `messages` have lost their texts, `after` is where it goes on; None: it is through."""

    messages: int = 0
    after: Place | None = BEGINNING


async def end_retention(
    session: Session, agent_id: str | None, sweep: Sweep, most: int, settings: Settings, now: datetime
) -> Sweep:
    """The next batch, of one agent or of all: at most so many messages. What somebody works on is left for later."""
    if sweep.after is None:
        return sweep
    batch = settings.maintenance_batch
    messages = MessageRepository(session, settings.message_retention_days, now)
    ended = await messages.end_retention(
        agent_id,
        sweep.after,
        conversations=max(1, batch // MESSAGES_PER_SESSION),
        messages=min(batch, most),
        keep_verbatim=settings.keep_verbatim,
    )
    return Sweep(sweep.messages + ended.messages, ended.after)
