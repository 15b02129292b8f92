"""Where an observation spread: what was made of it in wider scopes, by lineage, as far as a user sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import BigInteger, Integer, and_, bindparam, func, literal_column, select
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import LineageRow
from memory_sql.db.observation_rows import select_read, to_observation
from memory_sql.db.repositories.scopes import is_visible, visible_scopes
from memory_sql.domain.observations import Observation


async def made_of(
    session: AsyncSession, principal: Mapping[str, Any], scope_id: int, seq: int, limit: int
) -> list[Observation]:
    """Nearest first; nothing is followed into or through a scope that the principal doesn't see."""
    found = await session.execute(_MADE_OF, {**principal, "scope_id": scope_id, "seq": seq, "limit": limit})
    return [to_observation(row) for row in found]


def _made_of() -> Any:
    link, visible = LineageRow, select(visible_scopes()).cte("seen").prefix_with("MATERIALIZED")
    begun = (
        select(link.agent_key, link.scope_id, link.seq, literal_column("1", Integer).label("level"))
        .join(visible, is_visible(link, visible))
        .where(link.source_scope_id == bindparam("scope_id", type_=BigInteger))
        .where(link.source_seq == bindparam("seq", type_=Integer))
    )
    line = begun.cte("line", recursive=True)
    is_its = and_(
        link.agent_key == line.c.agent_key, link.source_scope_id == line.c.scope_id, link.source_seq == line.c.seq
    )
    further = (
        select(link.agent_key, link.scope_id, link.seq, line.c.level + 1)
        .join(line, is_its)
        .join(visible, is_visible(link, visible))
    )
    line = line.union(further)
    key = (line.c.agent_key, line.c.scope_id, line.c.seq)
    made = select(*key, func.min(line.c.level).label("level")).group_by(*key).subquery("made")
    read = select_read(func.memory.observation_as_read(made.c.agent_key, made.c.scope_id, made.c.seq), each=made)
    return (
        read.where(~func.memory.is_aside(read.selected_columns["status"]))
        .order_by(made.c.level, made.c.scope_id, made.c.seq)
        .limit(bindparam("limit", type_=BigInteger))
    )


_MADE_OF = _made_of()
