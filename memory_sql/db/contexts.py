"""What the static layer of a context is made of, in one statement."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import BigInteger, DateTime, Text

from memory_sql.db.scopes import disputed_of, in_stable_order, pending_of, scope_ref
from memory_sql.domain import ScopeText

_WHOSE = (
    *(bindparam(name, type_=Text) for name in ("agent_id", "user_id", "session_id")),
    bindparam("pending_max", type_=BigInteger),
)
_COLUMNS = (
    "scope_id",
    "kind",
    "owner",
    "name",
    "display_name",
    "consolidation",
    "version",
    "pending_seqs",
    "pending_contents",
    "pending_times",
    "disputed_seqs",
    "disputed_contents",
    "disputed_times",
)
LAYER = func.memory.static_layer(*_WHOSE).table_valued(*_COLUMNS, name="layer")
_STATIC_LAYER = select(LAYER).order_by(*in_stable_order(LAYER.c))
_moment = bindparam("as_of", type_=DateTime(timezone=True))
_layer_at = func.memory.static_layer_at(*_WHOSE, _moment).table_valued(*_COLUMNS, name="layer")
_STATIC_LAYER_AT = select(_layer_at).order_by(*in_stable_order(_layer_at.c))


async def static_layer(
    session: AsyncSession, principal: Mapping[str, Any], pending_max: int, as_of: datetime | None = None
) -> list[ScopeText]:
    """The visible scopes, in the stable order of the prompt; as they were at a past moment, if one is given."""
    given = {**principal, "pending_max": pending_max}
    if as_of is None:
        found = await session.execute(_STATIC_LAYER, given)
    else:
        found = await session.execute(_STATIC_LAYER_AT, {**given, "as_of": as_of})
    return [scope_text(row) for row in found]


def scope_text(row: Any) -> ScopeText:
    return ScopeText(
        ref=scope_ref(row.scope_id, row.kind, row.owner, row.name),
        display_name=row.display_name,
        consolidation=row.consolidation,
        version=row.version,
        pending=pending_of(row),
        disputed=disputed_of(row),
    )
