"""Rechecks: what a text has absorbed, compared with what lies near it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from memory_sql.domain.ids import Value
from memory_sql.domain.layer import ScopeRef

PairOutcome = Literal["contradicts", "same", "unrelated"]


class Rechecked(Value):
    """What came of the recheck of one scope; `run_id` None: there was nothing to ask, and no model was asked.

    `pairs`: how many pairs of observations the model was asked about; of those `contradictions` and `same` by its answer.
    `superseded`: observations that gave way; `held`: contradictions that wait for a person. `version`: the version that
    records it, by which it is undone; None: nothing changed. `more`: pairs are left for the next recheck.
    """

    scope: ScopeRef
    pairs: int = 0
    contradictions: int = 0
    same: int = 0
    superseded: int = 0
    held: int = 0
    version: int | None = None
    run_id: int | None = None
    model: str | None = None
    more: bool = False


class RecheckResult(Value):
    """The scopes that were rechecked. `failed` maps a scope to the reason; it stays due."""

    rechecked: tuple[Rechecked, ...] = ()
    failed: dict[str, str] = Field(default_factory=dict)
