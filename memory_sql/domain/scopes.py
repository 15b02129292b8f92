"""Scopes, their texts and the versions of the texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

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


class Scope(Value):
    """A scope and its current text. `version` 0: no text yet. `observations` and `pending` are counts."""

    ref: ScopeRef
    display_name: str | None
    is_active: bool
    consolidation: str | None
    version: int
    observations: int
    pending: int
    created_at: datetime
    last_activity_at: datetime | None
    consolidated_at: datetime | None


class ScopeSetting(Value):
    """The effective value of a scope's setting. `source`: scope, agent, argument, environment, file or default."""

    value: Any
    source: str


class ScopeDetails(Value):
    """A scope and its settings, by name (`config.SCOPE_SETTINGS`). `prompts`: the version that applies, by name."""

    ref: ScopeRef
    display_name: str | None
    created_at: datetime
    settings: dict[str, ScopeSetting]
    prompts: dict[str, int]


@dataclass(frozen=True, slots=True)
class PendingObservation:
    """An observation that its scope's text doesn't contain yet."""

    seq: int
    content: str
    observed_at: datetime


@dataclass(frozen=True, slots=True)
class AbsorbedObservation:
    """An active observation that its scope's text contains."""

    seq: int
    content: str
    observed_at: datetime


@dataclass(frozen=True, slots=True)
class ScopeText:
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


@dataclass(frozen=True, slots=True)
class StaticLayer:
    """The input of a context: the visible scopes, unordered, and the agent's own settings.

    `more`: how many more scopes are visible, whose contents the settings leave out.
    """

    scopes: tuple[ScopeText, ...]
    settings: Mapping[str, Any]
    more: int = 0


class Contradiction(Value):
    """A contradiction that a consolidation found, by the numbers (`seq`) of its scope's observations.

    `older` None: only the text said it. `was` and `now`: the model's short description; None if it gave none. `held`: the
    version would have superseded too much, so this waits for a person, and the older observation stays active.
    """

    newer: int
    older: int | None = None
    was: str | None = None
    now: str | None = None
    held: bool = False


class Repetition(Value):
    """A repetition that a consolidation found, by the numbers (`seq`) of its scope's observations.

    The newer one is superseded by the older one, which gets its evidence.
    """

    newer: int
    older: int


class Consolidation(Value):
    """One immutable version of a scope's text, made from the observations `(from_seq, to_seq]` and version `base`."""

    scope: ScopeRef
    version: int
    base: int
    from_seq: int
    to_seq: int
    live: bool
    content: str
    words: int
    model: str | None
    reason: str
    run_id: int | None
    created_at: datetime
    contradictions: tuple[Contradiction, ...] = ()
    repetitions: tuple[Repetition, ...] = ()


class Sentence(Value):
    """One sentence of a diff between two versions of a text."""

    change: Literal["kept", "removed", "added"]
    text: str


class Diff(Value):
    """The difference between versions `from_version` (0: before the first text) and `to_version` of a scope's text.

    `sentences` are in the order of the texts; the old wording of a rewritten sentence comes first. `absorbed`: the ids of the
    observations that only the later text contains; `given_back`: those that only the earlier one contained (undone).
    """

    scope: ScopeRef
    from_version: int
    to_version: int
    sentences: tuple[Sentence, ...]
    absorbed: tuple[str, ...] = ()
    given_back: tuple[str, ...] = ()
