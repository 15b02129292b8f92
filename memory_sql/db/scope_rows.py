"""The contents of a scope (pending and disputed observations, its buffer) as parts of statements, and reading their rows."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from sqlalchemy import and_, bindparam, func, literal_column, select
from sqlalchemy.types import BigInteger

from memory_sql.db.models import ObservationRow, ObservationStateRow, ScopeRow
from memory_sql.domain.ids import OWNER_PREFIX
from memory_sql.domain.scopes import PendingObservation, ScopeRef, ScopeText


def scope_ref(scope_id: int, kind: str, owner: str, name: str) -> ScopeRef:
    owner_id = owner[2:] if OWNER_PREFIX[kind].endswith(":") else None
    return ScopeRef(id=f"s{scope_id}", kind=kind, owner_id=owner_id, name=name or None)


def pending_observations(agent_key: Any, scope_id: Any, done_seq: Any) -> Any:
    """`memory.pending_observations` as a FROM clause."""
    columns = (ObservationRow.seq, ObservationRow.content, ObservationRow.observed_at)
    return func.memory.pending_observations(agent_key, scope_id, done_seq).table_valued(
        *(item.expression for item in columns), name="pending"
    )


def scope_texts(rows: Iterable[Any]) -> tuple[ScopeText, ...]:
    """The scopes in the rows of `memory.static_layer`; a row without a scope, with the agent's settings only, is skipped."""
    return tuple(_scope_text(row) for row in rows if row.scope_id is not None)


def _scope_text(row: Any) -> ScopeText:
    return ScopeText(
        ref=scope_ref(row.scope_id, row.kind, row.owner, row.name),
        display_name=row.display_name,
        consolidation=row.consolidation,
        version=row.version,
        pending=pending_of(row),
        disputed=disputed_of(row),
        buffer=buffer_of(row),
        speakers=tuple(row.speakers),
        more_pending=row.pending_more,
    )


def pending_of(row: Any) -> tuple[PendingObservation, ...]:
    """What `newest_pending` returned, oldest first."""
    return _oldest_first(row.pending_seqs, row.pending_contents, row.pending_times)


def disputed_of(row: Any) -> tuple[PendingObservation, ...]:
    """What `newest_disputed` returned, oldest first."""
    return _oldest_first(row.disputed_seqs, row.disputed_contents, row.disputed_times)


def buffer_of(row: Any) -> tuple[PendingObservation, ...]:
    """What `newest_buffer` returned, oldest first."""
    return _oldest_first(row.buffer_seqs, row.buffer_contents, row.buffer_times)


def _oldest_first(*newest_first: list[Any] | None) -> tuple[PendingObservation, ...]:
    """The rows of three parallel arrays, oldest first."""
    seqs, contents, times = newest_first
    found = map(PendingObservation, seqs or (), contents or (), times or ())
    return tuple(sorted(found, key=_BY_SEQ)) if seqs else ()


_BY_SEQ = attrgetter("seq")


def _in_scope(*conditions: Any) -> Any:
    """The active observations of a scope that meet these conditions, newest first."""
    o, state = ObservationRow, ObservationStateRow
    is_its = and_(state.agent_key == o.agent_key, state.scope_id == o.scope_id, state.seq == o.seq)
    return (
        select(o.seq, o.content, o.observed_at)
        .outerjoin(state, is_its)
        .where(o.agent_key == ScopeRow.agent_key, o.scope_id == ScopeRow.scope_id, func.memory.in_use(state.status))
        .where(*conditions)
        .order_by(o.seq.desc())
    )


def _arrays(found: Any, most: Any, name: str) -> Any:
    """The first `most` rows of `found`, as three arrays; one row for a scope, to be joined on true."""
    rows = found.limit(most).correlate(ScopeRow).subquery(f"{name}_rows")
    columns = {"seqs": rows.c.seq, "contents": rows.c.content, "times": rows.c.observed_at}
    labelled = (func.array_agg(column).label(f"{name}_{what}") for what, column in columns.items())
    return select(*labelled).correlate(ScopeRow).lateral(f"newest_{name}")


_PENDING_MAX = bindparam("pending_max", type_=BigInteger)
_waiting = pending_observations(ScopeRow.agent_key, ScopeRow.scope_id, ScopeRow.done_seq)
newest_pending = _arrays(
    select(_waiting.c.seq, _waiting.c.content, _waiting.c.observed_at).order_by(_waiting.c.seq.desc()),
    _PENDING_MAX,
    "pending",
)
"""The newest pending observations of each scope, at most `pending_max`."""
# Literals, as in the conditions of the indexes.
newest_disputed = _arrays(
    _in_scope(ObservationStateRow.verification == literal_column("'disputed'")), _PENDING_MAX, "disputed"
)
"""The newest disputed observations of each scope, pending or not, at most `pending_max`."""
newest_buffer = _arrays(
    _in_scope(ScopeRow.lanes != "absorb", ObservationRow.lane == literal_column("'buffer'")),
    ScopeRow.buffer_max,
    "buffer",
)
"""The contents of each scope's buffer, if it has one."""
