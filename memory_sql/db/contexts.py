"""What the static layer of a context is made of, in one statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select, true
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.scopes import (
    SCOPE_ORDER,
    disputed_of,
    is_visible,
    newest_disputed,
    newest_pending,
    pending_of,
    scope_ref,
    visible_scopes,
)
from memory_sql.db.tables import ScopeRow
from memory_sql.domain import ScopeText

_visible = visible_scopes()
_STATIC_LAYER = (
    select(
        ScopeRow.scope_id,
        ScopeRow.kind,
        ScopeRow.owner,
        ScopeRow.name,
        ScopeRow.display_name,
        ScopeRow.consolidation,
        ScopeRow.version,
        *newest_pending.c,
        *newest_disputed.c,
    )
    .join_from(_visible, ScopeRow, is_visible(ScopeRow, _visible))
    .join(newest_pending, true())
    .join(newest_disputed, true())
    .where(ScopeRow.is_active)
    .order_by(*SCOPE_ORDER)
)


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
            disputed=disputed_of(row),
        )
        for row in found
    ]
