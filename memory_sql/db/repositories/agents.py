"""Agents, and how much each of them holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ARRAY, Text, cast, func, select, true, update
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import AgentRow
from memory_sql.db.models.shards import is_here
from memory_sql.db.repositories.conversations import ConversationRepository
from memory_sql.domain.results import AgentSummary

ENDS_TEXTS = {"message_retention_days", "keep_verbatim"}


async def agent_key_of(session: AsyncSession, agent_id: str) -> int | None:
    return await session.scalar(select(AgentRow.agent_key).where(AgentRow.agent_id == agent_id))


@dataclass(frozen=True, slots=True)
class Agent:
    """`settings`: the agent's own settings."""

    key: int
    settings: dict[str, Any]


async def find_agent(session: AsyncSession, agent_id: str) -> Agent | None:
    found = await session.execute(select(AgentRow.agent_key, AgentRow.settings).where(AgentRow.agent_id == agent_id))
    row = found.one_or_none()
    return None if row is None else Agent(*row)


async def list_agents(session: AsyncSession, after: str | None, limit: int) -> list[AgentSummary]:
    """In the order of their ids, after `after`."""
    a, behind = AgentRow, AgentRow.agent_id > (after or "")
    rows = await session.execute(
        select(a.agent_id, a.created_at, a.settings).where(behind).order_by(a.agent_id).limit(limit)
    )
    return [AgentSummary(id=row.agent_id, created_at=row.created_at, settings=row.settings) for row in rows]


async def ensure_agent(session: AsyncSession, agent_id: str, now: datetime) -> Agent:
    agent = await find_agent(session, agent_id)
    if agent is None:
        made = upsert(AgentRow).values(agent_id=agent_id, created_at=now).on_conflict_do_nothing()
        row = (await session.execute(made.returning(AgentRow.agent_key, AgentRow.settings))).one_or_none()
        agent = await find_agent(session, agent_id) if row is None else Agent(*row)
    assert agent is not None  # agents are never deleted between two statements of one transaction
    return agent


async def next_by_budget(
    session: AsyncSession, agent_id: str | None, retention: str, after: int
) -> tuple[str, Agent] | None:
    """The next agent after that key, of one or of all, with retention by budget; its setting defaults to `retention`."""
    own = func.coalesce(AgentRow.settings["retention"].astext, retention)
    found = await session.execute(
        select(AgentRow.agent_id, AgentRow.agent_key, AgentRow.settings)
        .where(
            AgentRow.agent_key > after,
            own == "budget",
            is_here(AgentRow.agent_key),
            true() if agent_id is None else AgentRow.agent_id == agent_id,
        )
        .order_by(AgentRow.agent_key)
        .limit(1)
    )
    row = found.one_or_none()
    return None if row is None else (row.agent_id, Agent(row.agent_key, row.settings))


async def change_settings(
    session: AsyncSession, agent_key: int, given: Mapping[str, Any], unset: Sequence[str]
) -> None:
    """Conversations that are being formed are formed anew if it says something else about their texts."""
    changed = AgentRow.settings.op("-")(cast(list(unset), ARRAY(Text))).op("||")(cast(dict(given), JSONB))
    await session.execute(update(AgentRow).where(AgentRow.agent_key == agent_key).values(settings=changed))
    if ENDS_TEXTS & {*given, *unset}:
        await ConversationRepository(session).refuse_answers(agent_key)
