"""What waits to be done, counted."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import and_, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.tables import AgentRow, RunRow, ScopeRow, SessionRow
from memory_sql.domain import Backlog


async def read_backlog(session: AsyncSession, agent_id: str | None, now: datetime) -> Backlog:
    """Of one agent or of all."""
    sessions = (await session.execute(_counts(SessionRow, agent_id, now))).one()
    scopes = (await session.execute(_counts(ScopeRow, agent_id, now))).one()
    dead = await session.execute(_of(select(func.count()), RunRow, agent_id).where(RunRow.state == "dead"))
    return Backlog(
        due_sessions=sessions.due,
        due_scopes=scopes.due,
        oldest_due_at=min(filter(None, (sessions.oldest, scopes.oldest)), default=None),
        in_progress=sessions.in_progress + scopes.in_progress,
        retrying=sessions.retrying + scopes.retrying,
        dead=dead.scalar_one(),
    )


def _counts(row: type[SessionRow] | type[ScopeRow], agent_id: str | None, now: datetime) -> Any:
    leased = row.lease_until >= func.clock_timestamp()
    due = and_(row.due_at <= now, or_(row.lease_until.is_(None), row.lease_until < func.clock_timestamp()))
    counts = select(
        func.count().filter(due).label("due"),
        func.min(row.due_at).filter(due).label("oldest"),
        func.count().filter(leased).label("in_progress"),
        func.count().filter(row.due_at > now, row.failures + row.errors > 0).label("retrying"),
    )
    return _of(counts, row, agent_id)


def _of(counts: Any, row: type[SessionRow | ScopeRow | RunRow], agent_id: str | None) -> Any:
    counts = counts.select_from(row)
    if agent_id is None:
        return counts
    return counts.join(AgentRow, AgentRow.agent_key == row.agent_key).where(AgentRow.agent_id == agent_id)
