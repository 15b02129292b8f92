"""What waits in a scope, and what is disputed in it, as parts of statements; and how their rows are read."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from sqlalchemy import and_, bindparam, func, literal_column, select
from sqlalchemy.types import BigInteger

from memory_sql.db.models import ObservationRow, ObservationStateRow, ScopeRow
from memory_sql.domain.scopes import PendingObservation


def pending_observations(agent_key: Any, scope_id: Any, done_seq: Any) -> Any:
    """`memory.pending_observations` as a FROM clause."""
    columns = (ObservationRow.seq, ObservationRow.content, ObservationRow.observed_at)
    return func.memory.pending_observations(agent_key, scope_id, done_seq).table_valued(
        *(item.expression for item in columns), name="pending"
    )


def pending_of(row: Any) -> tuple[PendingObservation, ...]:
    """What `newest_pending` brought, oldest first."""
    return _oldest_first(row.pending_seqs, row.pending_contents, row.pending_times)


def disputed_of(row: Any) -> tuple[PendingObservation, ...]:
    """What `newest_disputed` brought, oldest first."""
    return _oldest_first(row.disputed_seqs, row.disputed_contents, row.disputed_times)


def buffer_of(row: Any) -> tuple[PendingObservation, ...]:
    """What `newest_buffer` brought, oldest first."""
    return _oldest_first(row.buffer_seqs, row.buffer_contents, row.buffer_times)


def _oldest_first(*newest_first: list[Any] | None) -> tuple[PendingObservation, ...]:
    """Of three arrays, in the order in which the database adds up what it sorted."""
    seqs, contents, times = newest_first
    found = map(PendingObservation, seqs or (), contents or (), times or ())
    return tuple(sorted(found, key=_BY_SEQ)) if seqs else ()


_BY_SEQ = attrgetter("seq")
_waiting = pending_observations(ScopeRow.agent_key, ScopeRow.scope_id, ScopeRow.done_seq)
_newest = (
    select(_waiting.c.seq, _waiting.c.content, _waiting.c.observed_at)
    .order_by(_waiting.c.seq.desc())
    .limit(bindparam("pending_max", type_=BigInteger))
    .correlate(ScopeRow)
    .subquery("newest")
)
newest_pending = (
    select(
        func.array_agg(_newest.c.seq).label("pending_seqs"),
        func.array_agg(_newest.c.content).label("pending_contents"),
        func.array_agg(_newest.c.observed_at).label("pending_times"),
    )
    .correlate(ScopeRow)
    .lateral("newest_pending")
)
"""For each scope its newest pending observations, at most `pending_max`; one row, to be joined on true."""

_doubted = (
    select(ObservationRow.seq, ObservationRow.content, ObservationRow.observed_at)
    .join(
        ObservationStateRow,
        and_(
            ObservationStateRow.agent_key == ObservationRow.agent_key,
            ObservationStateRow.scope_id == ObservationRow.scope_id,
            ObservationStateRow.seq == ObservationRow.seq,
        ),
    )
    .where(
        ObservationStateRow.agent_key == ScopeRow.agent_key,
        ObservationStateRow.scope_id == ScopeRow.scope_id,
        ObservationStateRow.verification == literal_column("'disputed'"),  # as the condition of the index has it
        func.memory.in_use(ObservationStateRow.status),
    )
    .order_by(ObservationRow.seq.desc())
    .limit(bindparam("pending_max", type_=BigInteger))
    .correlate(ScopeRow)
    .subquery("doubted")
)
newest_disputed = (
    select(
        func.array_agg(_doubted.c.seq).label("disputed_seqs"),
        func.array_agg(_doubted.c.content).label("disputed_contents"),
        func.array_agg(_doubted.c.observed_at).label("disputed_times"),
    )
    .correlate(ScopeRow)
    .lateral("newest_disputed")
)
"""For each scope its newest disputed observations, pending or not, at most `pending_max`; to be joined on true."""

_buffered = (
    select(ObservationRow.seq, ObservationRow.content, ObservationRow.observed_at)
    .outerjoin(
        ObservationStateRow,
        and_(
            ObservationStateRow.agent_key == ObservationRow.agent_key,
            ObservationStateRow.scope_id == ObservationRow.scope_id,
            ObservationStateRow.seq == ObservationRow.seq,
        ),
    )
    .where(
        ScopeRow.lanes != "absorb",
        ObservationRow.agent_key == ScopeRow.agent_key,
        ObservationRow.scope_id == ScopeRow.scope_id,
        ObservationRow.lane == literal_column("'buffer'"),  # as the condition of the index has it
        func.memory.in_use(ObservationStateRow.status),
    )
    .order_by(ObservationRow.seq.desc())
    .limit(ScopeRow.buffer_max)
    .correlate(ScopeRow)
    .subquery("buffered")
)
newest_buffer = (
    select(
        func.array_agg(_buffered.c.seq).label("buffer_seqs"),
        func.array_agg(_buffered.c.content).label("buffer_contents"),
        func.array_agg(_buffered.c.observed_at).label("buffer_times"),
    )
    .correlate(ScopeRow)
    .lateral("newest_buffer")
)
"""For each scope with a buffer what is in it; to be joined on true."""
