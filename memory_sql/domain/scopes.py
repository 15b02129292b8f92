"""Scopes, their texts and the versions of the texts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from memory_sql.domain.ids import Value
from memory_sql.domain.layer import PendingObservation as PendingObservation
from memory_sql.domain.layer import ScopeRef as ScopeRef
from memory_sql.domain.layer import ScopeText as ScopeText
from memory_sql.domain.layer import StaticLayer as StaticLayer


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
class AbsorbedObservation:
    """An observation that its scope's text contains: active, or what has `ended` since the text was written, and how."""

    seq: int
    content: str
    observed_at: datetime
    ended: str | None = None


class Contradiction(Value):
    """A contradiction that a consolidation found, by the numbers (`seq`) of its scope's observations.

    `older` None: only the text said it. `was` and `now`: the model's short description; None if it gave none. `held`: the
    version would have superseded too much, so this waits for a person, and the older observation stays active. `still`: what
    else the older one says and still holds, which is an observation of its own from then on; `asks`: once a person has said
    that it is so, since it isn't in the words of the older one.
    """

    newer: int
    older: int | None = None
    was: str | None = None
    now: str | None = None
    held: bool = False
    still: str | None = None
    asks: bool = False


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
