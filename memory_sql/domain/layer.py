"""What the static layer of a context is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memory_sql.domain.ids import ScopeKind, Value


class ScopeRef(Value):
    """Which scope; `owner_id` is the user's, group's, conversation's or entity's id, None for the agent's own scopes."""

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


@dataclass(frozen=True, slots=True)
class PendingObservation:
    """An observation that its scope's text doesn't hold yet."""

    seq: int
    content: str
    observed_at: datetime


@dataclass(frozen=True, slots=True)
class ScopeText:
    """A visible scope as the prompt shows it; pending observations oldest first.

    `more_pending`: how many older ones are pending beside. `disputed` are those, pending or in the text, that somebody says
    aren't so; `buffer` is what never goes into the text, oldest first; `speakers` the names of who speaks.
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


@dataclass(frozen=True, slots=True)
class StaticLayer:
    """What a context is made of: the visible scopes, in no order, and the settings that the agent has of its own.

    `more`: visible scopes beside, of which the settings leave out what they hold.
    """

    scopes: tuple[ScopeText, ...]
    settings: Mapping[str, Any]
    more: int = 0
