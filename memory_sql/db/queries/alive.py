"""How alive an observation is: one statement."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import DateTime, and_, bindparam, case, func, select, true
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import AgentRow, ObservationRow, ObservationStateRow
from memory_sql.domain.observations import Lifecycle

_o, _t, _a = ObservationRow, ObservationStateRow, AgentRow
_now = bindparam("now", type_=DateTime(timezone=True))
_lived = (
    func.memory.lived(_o.agent_key, _o.scope_id, _o.seq, _now)
    .table_valued("uses", "last_used_at", "feedback", name="lived")
    .lateral()
)
_scores = (
    func.memory.lifecycle(
        *(_o.confidence, _o.importance, _lived.c.uses, _lived.c.last_used_at),
        func.coalesce(_t.said_again_at, _o.observed_at),
        *(_o.created_at, _lived.c.feedback, _t.verification, _o.category, _t.status, _now),
    )
    .table_valued("heat", "decay", "value", name="scores")
    .lateral()
)
_ALIVE = (
    select(
        case((_t.status == "archived", "archived"), else_=func.coalesce(_t.stage, "candidate")).label("stage"),
        case((_o.cold, "cold"), else_="hot").label("tier"),
        func.coalesce(_t.policy, "durable").label("policy"),
        *_scores.c,
        _lived.c.uses,
        _lived.c.last_used_at,
    )
    .select_from(_o)
    .join(_a, _a.agent_key == _o.agent_key)
    .outerjoin(_t, and_(_t.agent_key == _o.agent_key, _t.scope_id == _o.scope_id, _t.seq == _o.seq))
    .join(_lived, true())
    .join(_scores, true())
    .where(_a.agent_id == bindparam("agent_id"), _o.scope_id == bindparam("scope"), _o.seq == bindparam("seq"))
)


async def lifecycle_of(session: AsyncSession, agent_id: str, key: tuple[int, int], now: datetime) -> Lifecycle | None:
    """None: there is no such observation any more."""
    found = await session.execute(_ALIVE, {"agent_id": agent_id, "scope": key[0], "seq": key[1], "now": now})
    row = found.one_or_none()
    return None if row is None else Lifecycle(**row._mapping)
