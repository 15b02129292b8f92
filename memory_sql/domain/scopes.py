"""Scopes, their texts and the versions of these."""

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
    """A consolidation boundary. `version` 0: nothing consolidated yet. Counts are of observations."""

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
    """A setting of a scope as it counts. `source`: scope, agent, argument, environment, file or default."""

    value: Any
    source: str


class ScopeDetails(Value):
    """A scope and its settings, by name (`config.SCOPE_SETTINGS`). `prompts`: the version of each that counts, by name."""

    ref: ScopeRef
    display_name: str | None
    created_at: datetime
    settings: dict[str, ScopeSetting]
    prompts: dict[str, int]


@dataclass(frozen=True, slots=True)
class AbsorbedObservation:
    """An active observation that its scope's text holds."""

    seq: int
    content: str
    observed_at: datetime


class Contradiction(Value):
    """What a consolidation found to be said otherwise now, by numbers (`seq`) of its scope's observations.

    `older` None: the text had said it. `was` and `now` are the model's words, short; None where it gave none. `held`: the
    version would have superseded too much, so this waits for a person, and the older observation stays active.
    """

    newer: int
    older: int | None = None
    was: str | None = None
    now: str | None = None
    held: bool = False


class Repetition(Value):
    """What a consolidation found to be said before, by numbers (`seq`) of its scope's observations.

    The newer one is superseded by the older, which has gained its evidence.
    """

    newer: int
    older: int


class Consolidation(Value):
    """One immutable version of a scope's text, made of the observations `(from_seq, to_seq]` and of version `base`."""

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
    """One sentence of two versions of a text."""

    change: Literal["kept", "removed", "added"]
    text: str


class Diff(Value):
    """What makes version `to_version` of a scope's text another than `from_version` (0: before there was a text).

    `sentences` are in the order of the texts; of one that was rewritten the old wording comes first. `absorbed`: the ids
    of the observations that only the later text holds; `given_back`: those that only the earlier one held (undone).
    """

    scope: ScopeRef
    from_version: int
    to_version: int
    sentences: tuple[Sentence, ...]
    absorbed: tuple[str, ...] = ()
    given_back: tuple[str, ...] = ()
