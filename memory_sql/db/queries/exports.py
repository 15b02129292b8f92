"""Everything that is stored about a person, in one snapshot, line by line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.queries.personal_rows import Part, PersonalRows
from memory_sql.db.repositories.agents import agent_key_of
from memory_sql.db.repositories.aliases import AliasRepository
from memory_sql.domain.exports import ExportHeader, ExportLine
from memory_sql.errors import NotFoundError

BATCH = 500  # rows that are held in memory at a time

_SNAPSHOT = text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


async def export_of(session: AsyncSession, agent_id: str, user_id: str, now: datetime) -> AsyncIterator[ExportLine]:
    """The header, then the rest. The session must not have run a query before. Raises `NotFoundError`."""
    await session.execute(_SNAPSHOT)
    agent_key = await agent_key_of(session, agent_id)
    if agent_key is None:
        raise NotFoundError("agent", agent_id)
    ids = await AliasRepository(session, agent_key).user_ids(user_id)
    parts = PersonalRows(agent_id, agent_key, ids).parts()
    counts = {name: await _count(session, part) for name, part in parts.items()}
    yield ExportHeader(agent_id=agent_id, user_id=user_id, user_ids=tuple(ids), exported_at=now, counts=counts)
    for part in parts.values():
        found = await session.stream(part.rows.execution_options(yield_per=BATCH))
        async for row in found:
            yield part.line(row)


async def _count(session: AsyncSession, part: Part) -> int:
    counted = part.rows.order_by(None) if part.counted is None else part.counted
    return await session.scalar(select(func.count()).select_from(counted.subquery())) or 0
