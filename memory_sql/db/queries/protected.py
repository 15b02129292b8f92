"""What a person has taken out of sight: quarantined, asked to forget, or made more private."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import and_, exists, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.arrays import among
from memory_sql.db.models import EventRow, EvidenceRow, ObservationRow, ObservationStateRow
from memory_sql.domain.ids import observation_id


async def protected_of(
    session: AsyncSession, agent_key: int, conversation_id: str, numbers: Collection[int]
) -> dict[int, str]:
    """By message, an observation made of it that a person, not a rule or a model, has taken out of sight."""
    s, o, t, e = EvidenceRow, ObservationRow, ObservationStateRow, EventRow
    by_person = (e.agent_key == o.agent_key, e.scope_id == o.scope_id, e.seq == o.seq)
    is_asked = or_(e.run_id.is_(None), e.detail.has_key("request"))
    is_quarantined = and_(t.status == "quarantined", exists().where(*by_person, e.kind == "status", is_asked))
    is_private = or_(o.no_propagate, o.sensitivity != "public")
    found = await session.execute(
        select(s.number, o.scope_id, o.seq)
        .join(o, and_(o.agent_key == s.agent_key, o.scope_id == s.scope_id, o.seq == s.seq))
        .outerjoin(t, and_(t.agent_key == o.agent_key, t.scope_id == o.scope_id, t.seq == o.seq))
        .where(
            s.agent_key == agent_key,
            s.conversation_id == conversation_id,
            among(s.number, numbers),
            or_(is_quarantined, and_(is_private, exists().where(*by_person, e.kind == "privacy", e.run_id.is_(None)))),
        )
    )
    return {number: observation_id(scope_id, seq) for number, scope_id, seq in found if number is not None}
