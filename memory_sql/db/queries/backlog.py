"""What waits to be done, counted."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import and_, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import AgentRow, ConversationRow, JudgedRow, RunRow, ScopeRow
from memory_sql.domain.results import Backlog


async def read_backlog(session: AsyncSession, agent_id: str | None, now: datetime) -> Backlog:
    """Of one agent or of all."""
    conversations = (await session.execute(_counts(ConversationRow, agent_id, now))).one()
    scopes = (await session.execute(_counts(ScopeRow, agent_id, now))).one()
    wider = (await session.execute(_propagations(agent_id, now))).one()
    dead = await session.execute(_of(select(func.count()), RunRow, agent_id).where(RunRow.state == "dead"))
    held = await session.execute(_of(select(func.count()), JudgedRow, agent_id).where(JudgedRow.outcome == "held"))
    return Backlog(
        due_conversations=conversations.due,
        due_scopes=scopes.due,
        due_propagations=wider.due,
        oldest_due_at=min(filter(None, (conversations.oldest, scopes.oldest, wider.oldest)), default=None),
        in_progress=conversations.in_progress + scopes.in_progress,
        retrying=conversations.retrying + scopes.retrying + wider.retrying,
        dead=dead.scalar_one(),
        held=held.scalar_one(),
    )


def _counts(row: type[ConversationRow] | type[ScopeRow], agent_id: str | None, now: datetime) -> Any:
    leased = row.lease_until >= func.clock_timestamp()
    due = and_(row.due_at <= now, _is_free(row))
    counts = select(
        func.count().filter(due).label("due"),
        func.min(row.due_at).filter(due).label("oldest"),
        func.count().filter(leased).label("in_progress"),
        func.count().filter(row.due_at > now, row.failures + row.errors > 0).label("retrying"),
    )
    return _of(counts, row, agent_id)


def _propagations(agent_id: str | None, now: datetime) -> Any:
    """Whoever propagates takes the same lease as whoever consolidates; it is counted there."""
    row = ScopeRow
    due = and_(row.propagate_at <= now, _is_free(row))
    again = (row.propagate_at > now, row.propagation_failures + row.propagation_errors > 0)
    counts = select(
        func.count().filter(due).label("due"),
        func.min(row.propagate_at).filter(due).label("oldest"),
        func.count().filter(*again).label("retrying"),
    )
    return _of(counts.where(row.propagate_at.is_not(None)), row, agent_id)


def _is_free(row: type[ConversationRow] | type[ScopeRow]) -> Any:
    return or_(row.lease_until.is_(None), row.lease_until < func.clock_timestamp())


def _of(counts: Any, row: type[ConversationRow | ScopeRow | RunRow | JudgedRow], agent_id: str | None) -> Any:
    counts = counts.select_from(row)
    if agent_id is None:
        return counts
    return counts.join(AgentRow, AgentRow.agent_key == row.agent_key).where(AgentRow.agent_id == agent_id)
