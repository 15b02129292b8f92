"""What ends episodes besides formation: that nothing goes on in their conversations, and the host."""

from __future__ import annotations

from datetime import datetime

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.repositories.episodes import EpisodeRepository
from memory_sql.errors import NotFoundError


async def seal(session: Session, agent_id: str | None, most: int, settings: Settings, now: datetime) -> int:
    """At most so many, the oldest first; what somebody works on is left to the next time. Returns how many.

    An episode ends so long after its last word as `episode_gap_minutes` says, whenever this comes.
    """
    return await EpisodeRepository(session).seal_idle(agent_id, settings, most, now)


async def force(session: Session, agent_id: str, conversation_id: str, settings: Settings) -> bool:
    """Ends the open episode of a conversation; whether there was one. Locks the conversation. Raises `NotFoundError`."""
    sealed = await EpisodeRepository(session).force(agent_id, conversation_id, settings)
    if sealed is None:
        raise NotFoundError("conversation", conversation_id)
    return sealed
