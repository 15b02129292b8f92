"""How the servers of models take requests, as it was found out."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import DialectRow

KEPT = timedelta(days=30)  # servers learn


class Found(NamedTuple):
    api: str
    output: str
    without: Collection[str]


async def find_dialect(session: AsyncSession, server: str, model: str, now: datetime) -> Found | None:
    wanted = (DialectRow.server == server, DialectRow.model == model, DialectRow.found_at > now - KEPT)
    query = select(DialectRow.api, DialectRow.output, DialectRow.without).where(*wanted)
    row = (await session.execute(query)).one_or_none()
    return None if row is None else Found(*row)


async def keep_dialect(session: AsyncSession, server: str, model: str, found: Found, now: datetime) -> None:
    values = {"api": found.api, "output": found.output, "without": sorted(found.without), "found_at": now}
    told = upsert(DialectRow).values(server=server, model=model, **values)
    await session.execute(told.on_conflict_do_update(index_elements=["server", "model"], set_=values))
