"""The observations that formations made from some messages of a conversation."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import and_, exists, false, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from memory_sql.db.models import EventRow, EvidenceRow, HoldRow, ObservationRow, ObservationStateRow, RunRow
from memory_sql.db.repositories.observations import IN_USE, VERIFICATION, ObservationKey

OF_RULES = (
    "budget",
    "sources",
    "twin",
    "fact",
    "line",
    "again",
    "whole",
    "speculative",
    "expired",
    "resolved",
    "age",
    "guideline",
)
"""Reasons for which a status changes without a person, a version or a run."""


@dataclass(frozen=True, slots=True)
class Formed:
    """An observation, and the messages of the conversation that support it.

    `settled`: a person has decided about it, or a hold keeps it. `lapsed`: it was superseded, and nothing superseding it is
    left.
    """

    key: ObservationKey
    content: str
    in_use: bool
    settled: bool
    lapsed: bool
    numbers: frozenset[int]


async def formed_of(
    session: AsyncSession, agent_key: int, conversation_id: str, from_number: int, to_number: int
) -> list[Formed]:
    """Those made from the messages after `from_number` up to `to_number`, by any run; in the order of the keys."""
    o, t, e, r, v = ObservationRow, ObservationStateRow, EvidenceRow, RunRow, EventRow
    is_any = exists().where(HoldRow.agent_key == agent_key, HoldRow.released_at.is_(None))
    held = and_(is_any, func.memory.is_held_observation(o.agent_key, o.scope_id, o.seq))
    by_person = or_(
        v.kind.in_(("correction", "verification", "privacy", "policy")),
        and_(
            v.kind == "status",
            v.run_id.is_(None),
            v.version.is_(None),
            func.coalesce(v.detail["why"].astext, "").not_in(OF_RULES),
        ),
    )
    events = exists().where(v.agent_key == o.agent_key, v.scope_id == o.scope_id, v.seq == o.seq, by_person)
    settled = or_(VERIFICATION != "unverified", events, held)
    next_ = aliased(t)
    successor = and_(next_.agent_key == t.agent_key, next_.scope_id == t.scope_id, next_.seq == t.superseded_by)
    has_no_place = and_(next_.status == "superseded", next_.superseded_by.is_(None))
    lapsed = and_(t.status == "superseded", or_(t.superseded_by.is_(None), has_no_place))
    numbers = select(func.array_agg(e.number)).where(
        e.agent_key == o.agent_key,
        e.scope_id == o.scope_id,
        e.seq == o.seq,
        e.conversation_id == conversation_id,
        e.number.is_not(None),
    )
    found = await session.execute(
        select(
            o.scope_id,
            o.seq,
            o.content,
            IN_USE.label("in_use"),
            settled.label("settled"),
            func.coalesce(lapsed, false()).label("lapsed"),
            numbers.scalar_subquery().label("numbers"),
        )
        .join(r, and_(r.agent_key == o.agent_key, r.run_id == o.run_id))
        .outerjoin(t, and_(t.agent_key == o.agent_key, t.scope_id == o.scope_id, t.seq == o.seq))
        .outerjoin(next_, successor)
        .where(
            o.agent_key == agent_key,
            r.kind == "formation",
            r.conversation_id == conversation_id,
            r.from_number >= from_number,
            r.to_number <= to_number,
        )
        .order_by(o.scope_id, o.seq)
    )
    return [
        Formed((row.scope_id, row.seq), row.content, row.in_use, row.settled, row.lapsed, frozenset(row.numbers or ()))
        for row in found
    ]
