"""The scopes that a principal may see, with the number of pending observations in each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ARRAY, Text, cast, func, select, true
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import ScopeRow, columns_of
from memory_sql.db.repositories.scopes import is_visible, visible_scopes
from memory_sql.db.scope_parts import pending_observations
from memory_sql.db.scope_rows import scope_ref
from memory_sql.domain.scopes import Scope

KIND_ORDER = ("collective", "agent", "guideline", "group", "individual", "entity", "conversation")  # most stable first


async def list_scopes(session: AsyncSession, principal: Mapping[str, Any]) -> list[Scope]:
    """The main scopes first, in the order collective, groups, user."""
    found = await session.execute(_VISIBLE, principal)
    return [
        Scope(
            ref=scope_ref(row.scope_id, row.kind, row.owner, row.name),
            observations=row.last_seq,
            pending=row.pending,
            **{column.key: row._mapping[column.key] for column in _SHOWN},
        )
        for row in found
    ]


_visible = visible_scopes()
_backlog = (
    select(func.count().label("pending"))
    .select_from(pending_observations(ScopeRow.agent_key, ScopeRow.scope_id, ScopeRow.done_seq))
    .correlate(ScopeRow)
    .lateral("backlog")
)
_SHOWN = (ScopeRow.consolidation, *columns_of(ScopeRow, Scope.model_fields))
_VISIBLE = (
    select(
        ScopeRow.scope_id, ScopeRow.kind, ScopeRow.owner, ScopeRow.name, ScopeRow.last_seq, _backlog.c.pending, *_SHOWN
    )
    .join_from(_visible, ScopeRow, is_visible(ScopeRow, _visible))
    .join(_backlog, true())
    .order_by(func.array_position(cast(list(KIND_ORDER), ARRAY(Text)), ScopeRow.kind), ScopeRow.owner, ScopeRow.name)
)
