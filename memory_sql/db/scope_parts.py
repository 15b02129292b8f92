"""What stands in a scope (what waits, what is disputed, its buffer) as parts of statements; `scope_rows` reads them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import and_, bindparam, case, func, literal_column, select
from sqlalchemy.types import BigInteger

from memory_sql.db.models import ObservationRow, ObservationStateRow, ScopeRow


def pending_observations(agent_key: Any, scope_id: Any, done_seq: Any, most: Any = None) -> Any:
    """`memory.pending_observations` as a FROM clause."""
    names = ("seq", "content", "observed_at", "said_again_at")
    columns = (getattr(ObservationRow, name) for name in names)
    return func.memory.pending_observations(agent_key, scope_id, done_seq, most).table_valued(
        *(item.expression for item in columns), name="pending"
    )


def _in_scope(*conditions: Any) -> Any:
    """The active observations of a scope that meet these conditions, newest first."""
    o, state = ObservationRow, ObservationStateRow
    is_its = and_(state.agent_key == o.agent_key, state.scope_id == o.scope_id, state.seq == o.seq)
    return (
        select(o.seq, o.content, o.said_at.label("observed_at"))
        .outerjoin(state, is_its)
        .where(
            o.agent_key == ScopeRow.agent_key, o.scope_id == ScopeRow.scope_id, o.standing == literal_column("'active'")
        )
        .where(*conditions)
        .order_by(o.seq.desc())
    )


def _arrays(found: Any, most: Any, name: str) -> Any:
    """The first rows of `found`, at most so many, as three arrays; one row for a scope, to be joined on true."""
    rows = found.limit(most).correlate(ScopeRow).subquery(f"{name}_rows")
    columns = {"seqs": rows.c.seq, "contents": rows.c.content, "times": rows.c.observed_at}
    labelled = (func.array_agg(column).label(f"{name}_{what}") for what, column in columns.items())
    return select(*labelled).correlate(ScopeRow).lateral(f"newest_{name}")


_PENDING_MAX = bindparam("pending_max", type_=BigInteger)
_waiting = pending_observations(ScopeRow.agent_key, ScopeRow.scope_id, ScopeRow.done_seq, _PENDING_MAX)
newest_pending = _arrays(
    select(_waiting.c.seq, _waiting.c.content, _waiting.c.observed_at).order_by(
        case((func.max(_waiting.c.said_again_at).over().is_not(None), _waiting.c.observed_at)).desc(),
        _waiting.c.seq.desc(),
    ),
    _PENDING_MAX,
    "pending",
)
"""For each scope its newest pending observations, at most `pending_max`."""
# Literals, as the conditions of the indexes have them.
newest_disputed = _arrays(
    _in_scope(ObservationStateRow.verification == literal_column("'disputed'")), _PENDING_MAX, "disputed"
)
"""For each scope its newest disputed observations, pending or not, at most `pending_max`."""
newest_buffer = _arrays(
    _in_scope(ScopeRow.lanes != "absorb", ObservationRow.lane == literal_column("'buffer'")),
    ScopeRow.buffer_max,
    "buffer",
)
"""For each scope with a buffer what is in it."""
