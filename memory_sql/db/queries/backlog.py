"""Counts of the work that waits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import reduce
from typing import Any

from sqlalchemy import (
    ColumnElement,
    DateTime,
    Integer,
    Interval,
    Text,
    bindparam,
    column,
    func,
    literal,
    literal_column,
    or_,
    select,
    table,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.config import Settings
from memory_sql.db.models import SCHEMA, AgentRow, ConversationRow, JudgedRow, RunRow, ScopeRow
from memory_sql.db.queries.held_claims import count_held, defaults_of
from memory_sql.domain.results import Backlog, Late, Waiting
from memory_sql.errors import ACCOUNT_REFUSED

LATE = timedelta(days=1)
HEARD_LATELY = timedelta(days=7)
REFUSED_LATELY = timedelta(minutes=30)  # an agent that keeps calling is refused more often than that


async def read_backlog(session: AsyncSession, agent_id: str | None, now: datetime, settings: Settings) -> Backlog:
    """The backlog of one agent, or of all."""
    given = {"agent_id": agent_id, "now": now, **defaults_of(settings)}
    one = (await session.execute(_OF_ALL if agent_id is None else _OF_AGENT, given)).one()
    oldest = (one.conversations_since, one.scopes_since, one.propagations_since, one.rechecks_since)
    return Backlog(
        due_conversations=one.conversations,
        due_scopes=one.scopes,
        due_propagations=one.propagations,
        due_rechecks=one.rechecks,
        waiting_conversations=one.waiting,
        oldest_due_at=min(filter(None, oldest), default=None),
        in_progress=one.leased_conversations + one.leased_scopes,
        retrying=one.conversations_again + one.scopes_again + one.propagations_again + one.rechecks_again,
        dead=one.dead,
        held=one.held,
        unheard=one.unheard,
        late=one.late_conversations + one.late_scopes,
        refusal=one.refusal,
        refused_at=one.refused_at,
    )


async def read_waiting(session: AsyncSession, agent_id: str | None, limit: int) -> list[Waiting]:
    """The rows of `v_backlog` of one agent, or of all, oldest first."""
    own = v_backlog.c
    statement = select(*own).order_by(own.oldest_at.asc().nulls_last(), own.agent_id, own.work, own.state).limit(limit)
    if agent_id is not None:
        statement = statement.where(own.agent_id == agent_id)
    return [Waiting(**row) for row in (await session.execute(statement)).mappings()]


async def read_late(session: AsyncSession, agent_id: str | None, before: datetime, limit: int) -> list[Late]:
    """The rows of `v_waiting` of one agent, or of all, that wait since before then, oldest first."""
    own = v_waiting.c
    statement = (
        select(*own).where(own.since < before).order_by(own.since, own.conversation_id, own.scope_id).limit(limit)
    )
    if agent_id is not None:
        statement = statement.where(own.agent_id == agent_id)
    return [Late(**row) for row in (await session.execute(statement)).mappings()]


v_waiting = table("v_waiting", *(column(name) for name in Late.model_fields), schema=SCHEMA)
v_backlog = table("v_backlog", *(column(name) for name in Waiting.model_fields), schema=SCHEMA)
_now = bindparam("now", type_=DateTime(timezone=True))
# Literals, as in the conditions of the indexes: a plan for any parameter can't use such an index.
_none: ColumnElement[int] = literal_column("0", Integer)
_one: ColumnElement[int] = literal_column("1", Integer)
_dead = literal_column("'dead'", Text)
_account = [literal_column(f"'{reason}'", Text) for reason in ACCOUNT_REFUSED]


def _due(name: str, due_at: Any) -> Any:
    """How many can be done now, and since when the oldest of them can."""
    row = due_at.class_
    is_free = or_(row.lease_until.is_(None), row.lease_until < func.clock_timestamp())
    return select(func.count().label(name), func.min(due_at).label(f"{name}_since")).where(due_at <= _now, is_free)


def _leased(name: str, row: Any) -> ColumnElement[int]:
    return func.count().filter(row.lease_until >= func.clock_timestamp()).label(f"leased_{name}")


def _again(name: str, due_at: Any, *counts: Any) -> ColumnElement[int]:
    return func.count().filter(due_at > _now, _failed(*counts)).label(f"{name}_again")


def _failed(*counts: Any) -> ColumnElement[bool]:
    """Compares each count, not their sum, for which the planner has no statistics."""
    return or_(*(count > _none for count in counts))


_c, _s = ConversationRow, ScopeRow
_unjudged = (_s.propagation_failures, _s.propagation_errors)
_own = select(AgentRow.settings["recheck"]).where(AgentRow.agent_key == _s.agent_key).correlate(_s).scalar_subquery()
_rechecks = _own.is_distinct_from(literal_column("'false'", JSONB))
_last_recheck = (
    select(RunRow.error_code)
    .where(
        RunRow.agent_key == _s.agent_key,
        RunRow.scope_id == _s.scope_id,
        RunRow.kind == literal_column("'recheck'", Text),
    )
    .order_by(RunRow.run_id.desc())
    .limit(_one)
    .correlate(_s)
    .scalar_subquery()
)
# Each uses a partial index with little more than what is counted. All work on scopes uses the same lease.
_PARTS: dict[str, tuple[Any, Any]] = {
    "conversations": (_c, _due("conversations", _c.due_at)),
    "scopes": (_s, _due("scopes", _s.due_at)),
    "propagations": (_s, _due("propagations", _s.propagate_at)),
    "rechecks": (_s, _due("rechecks", _s.recheck_at).where(_rechecks)),
    "rechecked": (
        _s,
        select(func.count().label("rechecks_again")).where(_s.recheck_at > _now, _rechecks, _last_recheck.is_not(None)),
    ),
    "forming": (
        _c,
        select(_leased("conversations", _c), _again("conversations", _c.due_at, _c.failures, _c.errors)).where(
            or_(_c.lease_until.is_not(None), _failed(_c.failures, _c.errors))
        ),
    ),
    "working": (
        _s,
        select(
            _leased("scopes", _s),
            _again("scopes", _s.due_at, _s.failures, _s.errors),
            _again("propagations", _s.propagate_at, *_unjudged),
        ).where(or_(_s.lease_until.is_not(None), _failed(_s.failures, _s.errors, *_unjudged))),
    ),
    "waiting": (
        _c,
        select(func.count().label("waiting")).where(_c.due_at > _now, ~_failed(_c.failures, _c.errors)),
    ),
    "dead": (RunRow, select(func.count().label("dead")).where(RunRow.state == _dead)),
    "late_conversations": (
        _c,
        select(func.count().label("late_conversations")).where(
            _c.due_at.is_not(None), _c.unformed_since < _now - literal(LATE, Interval)
        ),
    ),
    "late_scopes": (_s, select(func.count().label("late_scopes")).where(_s.due_at < _now - literal(LATE, Interval))),
    "unheard": (
        RunRow,
        select(func.count().label("unheard")).where(
            RunRow.refused.op("?")(literal_column("'signals_unheard'", Text)),
            RunRow.finished_at > _now - literal(HEARD_LATELY, Interval),
        ),
    ),
    "held": (JudgedRow, count_held),
}


def _refused(whose: Sequence[ColumnElement[bool]]) -> Any:
    """The newest recent run whose key or account was refused, if no run of its agent was answered since."""
    refused = select(RunRow.agent_key, RunRow.run_id, RunRow.error_code, RunRow.finished_at).where(
        RunRow.error_code.in_(_account), RunRow.finished_at > _now - literal(REFUSED_LATELY, Interval), *whose
    )
    newest = refused.order_by(RunRow.finished_at.desc()).limit(_one).subquery("newest")
    later = select(RunRow.run_id).where(
        RunRow.agent_key == newest.c.agent_key, RunRow.run_id > newest.c.run_id, RunRow.model.is_not(None)
    )
    return select(
        func.max(newest.c.error_code).label("refusal"), func.max(newest.c.finished_at).label("refused_at")
    ).where(~later.exists())


def _read(*, of_agent: bool) -> Any:
    """All parts side by side, each of which is one row."""
    parts = []
    agent = select(AgentRow.agent_key).where(AgentRow.agent_id == bindparam("agent_id", type_=Text)).scalar_subquery()
    for name, (row, part) in _PARTS.items():
        whose = part.where(row.agent_key == agent) if of_agent else part
        parts.append(whose.subquery(f"{name}_part"))
    parts.append(_refused([RunRow.agent_key == agent] if of_agent else []).subquery("refused_part"))
    return select(*(column for part in parts for column in part.c)).select_from(
        reduce(lambda left, right: left.join(right, true()), parts)
    )


_OF_ALL, _OF_AGENT = _read(of_agent=False), _read(of_agent=True)
