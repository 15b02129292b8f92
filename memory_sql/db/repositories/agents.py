"""Agents, and what there is of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    BindParameter,
    ColumnElement,
    ScalarSelect,
    Text,
    bindparam,
    cast,
    func,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from memory_sql.db.models import (
    LANGUAGES,
    AgentRow,
    Base,
    ConsolidationRow,
    JudgedRow,
    MessageRow,
    ObservationRow,
    RunRow,
    ScopeRow,
    SessionRow,
)
from memory_sql.db.repositories.retrievals import read_retrievals
from memory_sql.db.repositories.scopes import pending_observations
from memory_sql.domain.results import AgentSummary, Stats
from memory_sql.errors import InputError


async def agent_key_of(session: AsyncSession, agent_id: str) -> int | None:
    return await session.scalar(select(AgentRow.agent_key).where(AgentRow.agent_id == agent_id))


@dataclass(frozen=True, slots=True)
class Agent:
    """`settings` are those that it has of its own."""

    key: int
    settings: dict[str, Any]


async def find_agent(session: AsyncSession, agent_id: str) -> Agent | None:
    found = await session.execute(select(AgentRow.agent_key, AgentRow.settings).where(AgentRow.agent_id == agent_id))
    row = found.one_or_none()
    return None if row is None else Agent(*row)


async def list_agents(session: AsyncSession) -> list[AgentSummary]:
    """In the order of their ids."""
    rows = await session.execute(select(AgentRow).order_by(AgentRow.agent_id))
    return [AgentSummary(id=row.agent_id, created_at=row.created_at, settings=row.settings) for row in rows.scalars()]


async def ensure_agent(session: AsyncSession, agent_id: str, now: datetime) -> Agent:
    agent = await find_agent(session, agent_id)
    if agent is None:
        await session.execute(upsert(AgentRow).values(agent_id=agent_id, created_at=now).on_conflict_do_nothing())
        agent = await find_agent(session, agent_id)
    assert agent is not None  # agents are never deleted between two statements of one transaction
    return agent


async def next_by_budget(
    session: AsyncSession, agent_id: str | None, retention: str, after: int
) -> tuple[str, Agent] | None:
    """The first agent behind that key, of one or of all, whose retention is by budget; where it says nothing, `retention`."""
    own = func.coalesce(AgentRow.settings["retention"].astext, retention)
    found = await session.execute(
        select(AgentRow.agent_id, AgentRow.agent_key, AgentRow.settings)
        .where(
            AgentRow.agent_key > after,
            own == "budget",
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
    """Raises `InputError` for a language that no supported Postgres can search in."""
    if given.get("language", LANGUAGES[0]) not in LANGUAGES:
        raise InputError(f"settings: language: must be one of {', '.join(LANGUAGES)}")
    changed = AgentRow.settings.op("-")(cast(list(unset), ARRAY(Text))).op("||")(cast(dict(given), JSONB))
    await session.execute(update(AgentRow).where(AgentRow.agent_key == agent_key).values(settings=changed))


async def read_stats(session: AsyncSession, agent_id: str, since: date) -> Stats | None:
    """None for an agent that was never seen. `since`: the day from which on queries count."""
    key = await agent_key_of(session, agent_id)
    if key is None:
        return None
    counts = (await session.execute(_COUNTS, {"agent_key": key})).mappings().one()
    scopes = await session.execute(_SCOPES, {"agent_key": key})
    runs = await session.execute(_RUNS, {"agent_key": key})
    return Stats(
        agent_id=agent_id,
        **counts,
        scopes={row.kind: row.scopes for row in scopes},
        runs={f"{row.kind}.{row.state}": row.runs for row in runs},
        retrieval=await read_retrievals(session, key, since),
    )


_key: BindParameter[int] = bindparam("agent_key", type_=BigInteger)
_backlog = pending_observations(ScopeRow.agent_key, ScopeRow.scope_id, ScopeRow.done_seq)


def _count(table: type[Base], *conditions: ColumnElement[bool]) -> ScalarSelect[int]:
    return (
        select(func.count())
        .select_from(table)
        .where(table.__table__.c.agent_key == _key, *conditions)
        .scalar_subquery()
    )


def _tokens(column: InstrumentedAttribute[int | None]) -> ScalarSelect[int]:
    return select(func.coalesce(func.sum(column), 0)).where(RunRow.agent_key == _key).scalar_subquery()


_COUNTS = select(
    _count(SessionRow).label("sessions"),
    _count(MessageRow).label("messages"),
    select(func.coalesce(func.sum(SessionRow.unformed_messages), 0))
    .where(SessionRow.agent_key == _key)
    .scalar_subquery()
    .label("unformed_messages"),
    _count(SessionRow, SessionRow.due_at <= func.now()).label("due_sessions"),
    _count(ObservationRow).label("observations"),
    select(func.count())
    .select_from(ScopeRow)
    .join(_backlog, true())
    .where(ScopeRow.agent_key == _key)
    .scalar_subquery()
    .label("pending"),
    _count(ScopeRow, ScopeRow.due_at <= func.now()).label("due_scopes"),
    _count(ConsolidationRow).label("consolidations"),
    _count(ObservationRow, ObservationRow.source_kind == "propagation").label("propagated"),
    _count(ScopeRow, ScopeRow.propagate_at <= func.now()).label("due_propagations"),
    _count(JudgedRow, JudgedRow.outcome == "held").label("held"),
    _tokens(RunRow.input_tokens).label("input_tokens"),
    _tokens(RunRow.output_tokens).label("output_tokens"),
)
_SCOPES = select(ScopeRow.kind, func.count().label("scopes")).where(ScopeRow.agent_key == _key).group_by(ScopeRow.kind)
_RUNS = (
    select(RunRow.kind, RunRow.state, func.count().label("runs"))
    .where(RunRow.agent_key == _key)
    .group_by(RunRow.kind, RunRow.state)
)
