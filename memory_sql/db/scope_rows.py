"""Reads rows of scopes and of their contents: pending and disputed observations, the buffer."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from memory_sql.domain.ids import OWNER_PREFIX
from memory_sql.domain.layer import PendingObservation, ScopeRef, ScopeText


def scope_ref(scope_id: int, kind: str, owner: str, name: str) -> ScopeRef:
    owner_id = owner[2:] if OWNER_PREFIX[kind].endswith(":") else None
    return ScopeRef(id=f"s{scope_id}", kind=kind, owner_id=owner_id, name=name or None)


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
    """What `newest_pending` returned, oldest first: by number, or by time where something was said again."""
    return _rows(row.pending_seqs, row.pending_contents, row.pending_times)[::-1]


def disputed_of(row: Any) -> tuple[PendingObservation, ...]:
    """What `newest_disputed` returned, oldest first."""
    return _oldest_first(row.disputed_seqs, row.disputed_contents, row.disputed_times)


def buffer_of(row: Any) -> tuple[PendingObservation, ...]:
    """What `newest_buffer` returned, oldest first."""
    return _oldest_first(row.buffer_seqs, row.buffer_contents, row.buffer_times)


def _oldest_first(*newest_first: list[Any] | None) -> tuple[PendingObservation, ...]:
    """The rows of three parallel arrays, oldest first."""
    return tuple(sorted(_rows(*newest_first), key=_BY_SEQ))


def _rows(
    seqs: list[Any] | None, contents: list[Any] | None, times: list[Any] | None
) -> tuple[PendingObservation, ...]:
    return tuple(map(PendingObservation, seqs or (), contents or (), times or ()))


_BY_SEQ = attrgetter("seq")
