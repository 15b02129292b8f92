"""What the static layer of a context is made of, in one statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import BigInteger, Text

from memory_sql.db.scopes import in_stable_order, pending_of, scope_ref
from memory_sql.domain import ScopeText

_layer = func.memory.static_layer(
    *(bindparam(name, type_=Text) for name in ("agent_id", "user_id", "session_id")),
    bindparam("pending_max", type_=BigInteger),
).table_valued(
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
    name="layer",
)
_STATIC_LAYER = select(_layer).order_by(*in_stable_order(_layer.c))


async def static_layer(session: AsyncSession, principal: Mapping[str, Any], pending_max: int) -> list[ScopeText]:
    """The visible scopes, in the stable order of the prompt."""
    found = await session.execute(_STATIC_LAYER, {**principal, "pending_max": pending_max})
    return [
        ScopeText(
            ref=scope_ref(row.scope_id, row.kind, row.owner, row.name),
            display_name=row.display_name,
            consolidation=row.consolidation,
            version=row.version,
            pending=pending_of(row),
        )
        for row in found
    ]
