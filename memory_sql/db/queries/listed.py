"""Observations that a principal may see, a single one or page by page: one statement."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, DateTime, Text, bindparam, func, or_, tuple_

from memory_sql.db.direct import Reader
from memory_sql.db.models import ScopeRow
from memory_sql.db.observation_rows import select_read, to_observation
from memory_sql.db.repositories.observations import PAST_OBSERVATION, PAST_ROW, PAST_SAID_AGAIN_AT, PAST_STATUS
from memory_sql.domain.observations import Observation

Before = tuple[datetime, int, int]
"""When the last observation of a page was known, or said again, its scope and its number."""


async def one(reader: Reader, principal: Mapping[str, Any], scope_id: int, seq: int) -> Observation | None:
    """None: it doesn't exist, is set aside, or the principal may not see it."""
    found = await reader.execute(_LISTED, {**principal, **_NONE, "scope_id": scope_id, "seq": seq, "limit": 1})
    return next(map(to_observation, found), None)


async def page(
    reader: Reader, principal: Mapping[str, Any], scope_id: int | None, limit: int, before: Before | None
) -> list[Observation]:
    """The active observations, newest known first; `before` continues a listing."""
    found = await reader.execute(
        _LISTED, {**principal, **_behind(before), "scope_id": scope_id, "seq": None, "limit": limit}
    )
    return [to_observation(row) for row in found]


async def past_page(
    reader: Reader,
    principal: Mapping[str, Any],
    scope_id: int | None,
    limit: int,
    before: Before | None,
    as_of: datetime,
) -> list[Observation]:
    """As `page`, for the observations that were active at that moment."""
    found = await reader.execute(
        _PAST, {**principal, **_behind(before), "scope_id": scope_id, "limit": limit, "as_of": as_of}
    )
    return [to_observation(row) for row in found]


_BEFORE = ("before", "before_scope", "before_seq")
_NONE = dict.fromkeys(_BEFORE)


def _behind(before: Before | None) -> Mapping[str, Any]:
    return _NONE if before is None else dict(zip(_BEFORE, before, strict=True))


_scope_id, _limit = (bindparam(name, type_=BigInteger) for name in ("scope_id", "limit"))
_at = bindparam("before", type_=DateTime(timezone=True))
_before = (_at, *(bindparam(name, type_=BigInteger) for name in _BEFORE[1:]))
_LISTED = select_read(
    func.memory.listed(
        *(bindparam(name, type_=Text) for name in ("agent_id", "user_id", "conversation_id")),
        _scope_id,
        bindparam("seq", type_=BigInteger),
        _limit,
        *_before,
    )
)

_o = PAST_ROW
_known_at = func.greatest(_o.created_at, PAST_SAID_AGAIN_AT)
_PAST = (
    PAST_OBSERVATION.where(
        func.memory.in_use(PAST_STATUS),
        ScopeRow.is_active,
        or_(_scope_id.is_(None), _o.scope_id == _scope_id),
        or_(_at.is_(None), tuple_(_known_at, _o.scope_id, _o.seq) < tuple_(*_before)),
    )
    .order_by(_known_at.desc(), _o.scope_id.desc(), _o.seq.desc())
    .limit(_limit)
)
