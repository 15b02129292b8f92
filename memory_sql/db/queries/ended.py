"""Messages that have lost their texts for what they asked: a condition on `messages`, and those of a conversation."""

from __future__ import annotations

from sqlalchemy import ColumnElement, and_, func, literal_column, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import EventRow, MessageRow

IS_TEXTLESS: ColumnElement[bool] = or_(MessageRow.content.is_(None), MessageRow.withdrawn_by.is_not(None))


def ended_for_asking() -> ColumnElement[bool]:
    e, m = EventRow, MessageRow
    forgotten = select(e.event_id).where(
        e.agent_key == m.agent_key,
        e.kind == literal_column("'forget'"),  # as in the condition of events_conversation_id_idx
        e.conversation_id == m.conversation_id,
        e.detail["numbers"].op("@>")(func.to_jsonb(m.number)),
    )
    return and_(IS_TEXTLESS, forgotten.correlate(m).offset(0).exists())  # each by the index


async def ended_in(session: AsyncSession, agent_key: int, conversation_id: str) -> frozenset[int]:
    m = MessageRow
    ended = select(m.number).where(m.agent_key == agent_key, m.conversation_id == conversation_id, ended_for_asking())
    return frozenset(await session.scalars(ended))
