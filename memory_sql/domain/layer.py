"""What the static layer of a context is made of."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from memory_sql.domain.ids import ScopeKind, Value


class ScopeRef(Value):
    """Identifies a scope. `owner_id`: of the user, group, conversation or entity; None for the agent's own scopes."""

    id: str  # s12
    kind: ScopeKind
    owner_id: str | None = None
    name: str | None = None

    @property
    def key(self) -> int:
        return int(self.id[1:])

    def __str__(self) -> str:
        parts = (self.kind, self.owner_id, self.name)
        return ":".join(part for part in parts if part)


class PendingObservation(NamedTuple):
    """An observation that its scope's text doesn't contain yet."""

    seq: int
    content: str
    observed_at: datetime


class ScopeText(NamedTuple):
    """A visible scope as the prompt shows it; pending observations oldest first.

    `more_pending`: how many older ones are also pending. `disputed`: those, pending or in the text, that somebody says are
    wrong. `buffer`: those that never go into the text, oldest first. `speakers`: the names of the speakers.
    """

    ref: ScopeRef
    display_name: str | None
    consolidation: str | None
    version: int
    pending: tuple[PendingObservation, ...]
    disputed: tuple[PendingObservation, ...] = ()
    buffer: tuple[PendingObservation, ...] = ()
    speakers: tuple[str, ...] = ()
    more_pending: int = 0


class StaticLayer(NamedTuple):
    """The input of a context: the visible scopes, unordered, and the agent's own settings.

    `more`: how many more scopes are visible, whose contents the settings leave out. `is_known` False: there is no such agent.
    """

    scopes: tuple[ScopeText, ...]
    settings: Mapping[str, Any]
    more: int = 0
    is_known: bool = True
