"""What was thought of an observation: added to the sum of the day."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from sqlalchemy import Date, Double, Integer, bindparam, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import BigInteger

from memory_sql.db.models import ObservationFeedbackRow, ObservationRow
from memory_sql.db.repositories.scopes import is_visible, visible_scopes

_f: Any = ObservationFeedbackRow.__table__
_o, _visible = ObservationRow, visible_scopes()
_KEY = ("agent_key", "scope_id", "seq", "day")
# What is about to be deleted is waited for, and then it isn't there.
_there = (
    select(
        _o.agent_key,
        _o.scope_id,
        _o.seq,
        bindparam("day", type_=Date).label("day"),
        bindparam("value", type_=Double).label("total"),
        bindparam("once", 1, type_=Integer).label("times"),
    )
    .join(_visible, is_visible(_o, _visible))
    .where(
        _o.scope_id == bindparam("scope_id", type_=BigInteger),
        _o.seq == bindparam("seq", type_=BigInteger),
        ~func.memory.is_aside(_o.standing),
    )
    .with_for_update(key_share=True, read=True, of=_o)
    .cte("there")
)
_insert = insert(_f).from_select([*_KEY, "total", "times"], select(_there))
_ADD = _insert.on_conflict_do_update(
    index_elements=_KEY, set_={name: _f.c[name] + _insert.excluded[name] for name in ("total", "times")}
).returning(_f.c.times)


async def add_feedback(
    session: AsyncSession, principal: Mapping[str, Any], key: tuple[int, int], value: float, day: date
) -> bool:
    """False: there is no such observation that the principal may see."""
    scope_id, seq = key
    given = {**principal, "scope_id": scope_id, "seq": seq, "day": day, "value": value}
    return await session.scalar(_ADD, given) is not None
