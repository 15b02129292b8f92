"""The ledger of changes: one row per change, which outlives its subject and holds none of its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import EventRow


async def record(session: AsyncSession, agent_key: int, kind: str, now: datetime, **values: Any) -> None:
    """`values`: actor, reason, detail and what the event is about."""
    await session.execute(insert(EventRow).values(agent_key=agent_key, kind=kind, created_at=now, **values))


async def record_all(session: AsyncSession, events: Sequence[Mapping[str, Any]]) -> None:
    """In one statement; each event is a mapping of column names to values, with the same columns in all."""
    if events:
        await session.execute(insert(EventRow), events)
