"""What a formation read in several conversations at once (`formation.together`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from sqlalchemy import and_, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from memory_sql.db.arrays import among
from memory_sql.db.models import EvidenceRow, MessageRow, ObservationRow


async def read_with(
    session: AsyncSession, agent_key: int, conversation_id: str, numbers: Collection[int]
) -> dict[str, list[int]]:
    """The messages of other conversations of which something was formed together with any of these, while they have texts.

    Their numbers, by conversation.
    """
    o, m, given, beside = ObservationRow, MessageRow, aliased(EvidenceRow), aliased(EvidenceRow)
    of_given, of_beside = (
        and_(e.agent_key == o.agent_key, e.scope_id == o.scope_id, e.seq == o.seq, e.run_id == o.run_id)
        for e in (given, beside)
    )
    of_message = and_(
        m.agent_key == beside.agent_key, m.conversation_id == beside.conversation_id, m.number == beside.number
    )
    found = await session.execute(
        select(m.conversation_id, m.number)
        .distinct()
        .select_from(given)
        .join(o, of_given)
        .join(beside, of_beside)
        .join(m, of_message)
        .where(
            given.agent_key == agent_key,
            given.conversation_id == conversation_id,
            among(given.number, numbers),
            o.source_kind == "formation",
            m.conversation_id != conversation_id,
            m.content.is_not(None),
            m.withdrawn_by.is_(None),
        )
        .order_by(m.conversation_id, m.number)
    )
    by_conversation = defaultdict[str, list[int]](list)
    for where, number in found:
        by_conversation[where].append(number)
    return dict(by_conversation)
