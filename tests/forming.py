"""The steps of a formation, as the engine runs them."""

from __future__ import annotations

from datetime import datetime

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.repositories.conversations import ConversationState
from memory_sql.formation import formation
from memory_sql.formation.window import Loaded


async def loading(
    unit: Session, agent_id: str, conversation_id: str, settings: Settings, now: datetime, reason: str
) -> tuple[ConversationState, Loaded | None]:
    """The conversation, leased, and its next window."""
    key = formation.ConversationKey(agent_id, conversation_id)
    state = await formation.take(unit, key, settings) or await formation.refuse_untaken(unit, key)
    return state, await formation.load_claimed(unit, state, settings.of_agent(state.agent_settings), now, reason)
