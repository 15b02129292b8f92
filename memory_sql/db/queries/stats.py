"""How much an agent's memory holds, and how often it was queried."""

from __future__ import annotations

from datetime import date, datetime

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Date,
    DateTime,
    Numeric,
    ScalarSelect,
    Text,
    bindparam,
    case,
    column,
    func,
    or_,
    select,
    table,
    true,
)
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from memory_sql.config import Settings
from memory_sql.db.models import (
    SCHEMA,
    AgentRow,
    Base,
    ConsolidationRow,
    ConversationRow,
    JudgedRow,
    MessageRow,
    ObservationRow,
    ObservationStateRow,
    RetrievalRow,
    RunRow,
    ScopeRow,
)
from memory_sql.db.queries.held_claims import count_held, defaults_of
from memory_sql.db.repositories.agents import agent_key_of
from memory_sql.db.scope_parts import pending_observations
from memory_sql.domain.reading import RetrievalStats
from memory_sql.domain.results import JudgeRate, Stats
from memory_sql.errors import JudgeError


async def read_stats(
    session: AsyncSession, agent_id: str, now: datetime, since: date, settings: Settings
) -> Stats | None:
    """None for an agent that was never seen. `since`: the first day whose queries count."""
    key = await agent_key_of(session, agent_id)
    if key is None:
        return None
    given = {"agent_key": key, "now": now, **defaults_of(settings)}
    counts = (await session.execute(_COUNTS, given)).mappings().one()
    scopes = await session.execute(_SCOPES, {"agent_key": key})
    runs = await session.execute(_RUNS, {"agent_key": key})
    judges = await session.execute(_JUDGES, {"agent_key": key, "since": since})
    costs = await session.execute(_COSTS, {"agent_id": agent_id})
    return Stats(
        agent_id=agent_id,
        **counts,
        scopes={row.kind: row.scopes for row in scopes},
        runs={f"{row.kind}.{row.state}": row.runs for row in runs},
        costs={row.currency: row.cost for row in costs},
        judges=tuple(JudgeRate(model=row.model, answers=row.answers, wrong=row.wrong) for row in judges),
        retrieval=await read_retrievals(session, key, since),
    )


_key: BindParameter[int] = bindparam("agent_key", type_=BigInteger)
_now = bindparam("now", type_=DateTime(timezone=True))
_passed_over = select(ObservationStateRow.scope_id).where(
    ObservationStateRow.agent_key == _key, ObservationStateRow.repend, func.memory.in_use(ObservationStateRow.status)
)
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
    _count(ConversationRow).label("conversations"),
    _count(MessageRow).label("messages"),
    select(func.coalesce(func.sum(ConversationRow.unformed_messages), 0))
    .where(ConversationRow.agent_key == _key)
    .scalar_subquery()
    .label("unformed_messages"),
    _count(ConversationRow, ConversationRow.due_at <= _now).label("due_conversations"),
    _count(ObservationRow).label("observations"),
    select(func.count())
    .select_from(ScopeRow)
    .join(_backlog, true())
    .where(ScopeRow.agent_key == _key, or_(ScopeRow.last_seq > ScopeRow.done_seq, ScopeRow.scope_id.in_(_passed_over)))
    .scalar_subquery()
    .label("pending"),
    _count(ScopeRow, ScopeRow.due_at <= _now).label("due_scopes"),
    _count(ConsolidationRow).label("consolidations"),
    _count(ObservationRow, ObservationRow.source_kind == "propagation").label("propagated"),
    _count(ScopeRow, ScopeRow.propagate_at <= _now).label("due_propagations"),
    count_held.where(JudgedRow.agent_key == _key).scalar_subquery().label("held"),
    _tokens(RunRow.input_tokens).label("input_tokens"),
    _tokens(RunRow.output_tokens).label("output_tokens"),
)
_SCOPES = (
    select(ScopeRow.kind, func.count().label("scopes"))
    .where(ScopeRow.agent_key == _key)
    .group_by(ScopeRow.kind)
    .order_by(ScopeRow.kind)
)
_RUNS = (
    select(RunRow.kind, RunRow.state, func.count().label("runs"))
    .where(RunRow.agent_key == _key)
    .group_by(RunRow.kind, RunRow.state)
)
_cost = table("v_model_cost", column("agent_id"), column("currency"), column("cost", Numeric), schema=SCHEMA)
_COSTS = (
    select(_cost.c.currency, func.sum(_cost.c.cost).label("cost"))
    .where(_cost.c.agent_id == bindparam("agent_id", type_=Text), _cost.c.currency.is_not(None))
    .group_by(_cost.c.currency)
    .order_by(_cost.c.currency)
)

_wrong = func.coalesce(RunRow.refused["decoys"].as_integer(), 0) + case(
    (RunRow.error_code == JudgeError.reason, 2), else_=0
)
_JUDGES = (
    select(RunRow.model, func.sum(RunRow.calls).label("answers"), func.sum(_wrong).label("wrong"))
    .where(
        RunRow.agent_key == _key,
        RunRow.kind == "propagation",
        RunRow.calls > 0,
        RunRow.model.is_not(None),
        RunRow.started_at >= bindparam("since", type_=Date),
    )
    .group_by(RunRow.model)
    .order_by(RunRow.model)
)


async def read_retrievals(session: AsyncSession, agent_key: int, since: date) -> RetrievalStats:
    """The totals of an agent since that day."""
    row = RetrievalRow
    found = await session.execute(
        select(
            row.reason,
            func.sum(row.queries).cast(BigInteger),
            func.sum(row.without_hit).cast(BigInteger),
            func.sum(row.seconds),
            func.max(row.slowest_seconds),
        )
        .where(row.agent_key == agent_key, row.day >= since)
        .group_by(row.reason)
        .order_by(row.reason)
    )
    counted = found.all()
    searched = [one for one in counted if one.reason != "none"]
    fired = sum(one[1] for one in searched)
    return RetrievalStats(
        queries=sum(one[1] for one in counted),
        fired=fired,
        without_hit=sum(one[2] for one in searched),
        mean_ms=1000 * sum(one[3] for one in searched) / fired if fired else None,
        slowest_ms=1000 * max(one[4] for one in searched) if fired else None,
        reasons={one.reason: one[1] for one in counted},
    )


async def large_scopes(session: AsyncSession, agent_id: str, more_than: int) -> list[int]:
    """The ids of the agent's scopes that have more observations than `more_than`."""
    found = await session.scalars(
        select(ObservationRow.scope_id)
        .join(AgentRow, AgentRow.agent_key == ObservationRow.agent_key)
        .where(AgentRow.agent_id == agent_id)
        .group_by(ObservationRow.scope_id)
        .having(func.count() > more_than)
        .order_by(ObservationRow.scope_id)
    )
    return list(found)
