"""Episodes: when one ends, and what belongs to it. Formation opens and fills them (`memory.apply_formation`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Integer, Text, cast, func, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.config import Settings
from memory_sql.db.models import AgentRow, ConversationRow, EpisodeRow

Stored = tuple[tuple[int, int], datetime, Sequence[str]]
"""An observation's key, when it was said, and what it is about."""


def episode_rules(settings: Settings) -> dict[str, Any]:
    """As `memory.keep_episodes` takes them."""
    return {
        "most": settings.episode_max_observations,
        "shift": settings.episode_topic_shift,
        "gap": settings.episode_gap_minutes * 60,
        "trace": settings.episode_trace_likeness,
        "trace_days": settings.episode_trace_days,
    }


@dataclass(frozen=True, slots=True)
class EpisodeRepository:
    _session: AsyncSession

    async def seal_idle(self, agent_id: str | None, settings: Settings, most: int, now: datetime) -> int:
        """Ends at most so many in whose conversations nothing goes on, and returns how many."""
        rules = cast(episode_rules(settings), JSONB)
        sealed = select(func.memory.seal_idle(cast(agent_id, Text), rules, cast(most, Integer), now))
        return await self._session.scalar(sealed) or 0

    async def rejoin(self, agent_key: int, conversation_id: str, stored: Iterable[Stored], settings: Settings) -> None:
        """Puts what was formed again into the episodes in which it was said. The caller has locked the conversation."""
        items = [
            {"scope_id": key[0], "seq": key[1], "observed_at": at.isoformat(), "topics": topics}
            for key, at, topics in stored
        ]
        rules = cast(episode_rules(settings), JSONB)
        call = func.memory.rejoin_episodes(agent_key, cast(conversation_id, Text), cast(items, JSONB), rules)
        await self._session.execute(select(call))

    async def force(self, agent_id: str, conversation_id: str, settings: Settings) -> bool | None:
        """Ends the open one of a conversation, which it locks; None: there is no such conversation."""
        c, e = ConversationRow, EpisodeRow
        locked = (
            select(c.agent_key)
            .join(AgentRow, AgentRow.agent_key == c.agent_key)
            .where(AgentRow.agent_id == agent_id, c.conversation_id == conversation_id)
            .with_for_update(of=c, key_share=True)
        )
        agent_key = await self._session.scalar(locked)
        if agent_key is None:
            return None
        rules = cast(episode_rules(settings), JSONB)
        sealed = select(func.memory.seal_episode(e.agent_key, e.episode_id, "forced", e.last_at, rules)).where(
            e.agent_key == agent_key, e.conversation_id == conversation_id, e.sealed_at.is_(None)
        )
        return bool(await self._session.scalar(sealed))
