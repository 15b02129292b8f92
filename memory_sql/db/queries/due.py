"""Which kinds of background work have anything to do."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import DateTime, Text, and_, bindparam, exists, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import AgentRow, ConversationRow, ScopeRow

KINDS = {
    "formation": ConversationRow.due_at,
    "consolidation": ScopeRow.due_at,
    "propagation": ScopeRow.propagate_at,
}


async def due_kinds(session: AsyncSession, agent_id: str | None, by: datetime) -> set[str]:
    """Those that are due by then and that nobody works on, of one agent or of all."""
    found = await session.execute(_DUE, {"agent_id": agent_id, "by": by})
    return {kind for kind, is_due in found.one()._mapping.items() if is_due}


def _is_due(due_at: Any) -> Any:
    """Along the partial index of what is due."""
    row = due_at.class_
    is_free = or_(row.lease_until.is_(None), row.lease_until < func.clock_timestamp())
    agent_id = bindparam("agent_id", type_=Text)
    is_its = row.agent_key == select(AgentRow.agent_key).where(AgentRow.agent_id == agent_id).scalar_subquery()
    by = bindparam("by", type_=DateTime(timezone=True))
    return exists(select(row.agent_key).where(due_at <= by, and_(is_free, or_(agent_id.is_(None), is_its))))


_DUE = select(*(_is_due(due_at).label(kind) for kind, due_at in KINDS.items()))
