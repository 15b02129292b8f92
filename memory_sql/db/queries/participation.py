"""Who takes part in a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Text, bindparam, func, null, select
from sqlalchemy.ext.asyncio import AsyncSession

_agent_id, _user_id, _conversation_id = (
    bindparam(name, type_=Text) for name in ("agent_id", "user_id", "conversation_id")
)
_VISIBLE = select(func.count()).select_from(
    func.memory.visible_conversations(_agent_id, _user_id, null(), _conversation_id).table_valued("conversation_id")
)


async def takes_part(session: AsyncSession, principal: Mapping[str, Any]) -> bool:
    """Whether the user may see the messages of the conversation."""
    return bool(await session.scalar(_VISIBLE, principal))
