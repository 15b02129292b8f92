"""Stores a refused text for a person to review, in the form in which it would be applied. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from memory_sql.consolidation.replacing import Replaced
from memory_sql.db.repositories.scopes import ScopeState
from memory_sql.domain.scopes import Contradiction, PendingObservation, Repetition


def kept(scope: ScopeState, inputs: Sequence[PendingObservation], text: str, named: Replaced) -> dict[str, Any]:
    return {
        "version": scope.version,
        "epoch": scope.epoch,
        "inputs": [item.seq for item in inputs],
        "text": text,
        "contradictions": [item.model_dump() for item in named.contradictions],
        "repetitions": [item.model_dump() for item in named.repetitions],
        "refused": dict(named.refused),
    }


def named_in(held: Mapping[str, Any]) -> Replaced:
    return Replaced(
        tuple(map(Contradiction.model_validate, held["contradictions"])),
        tuple(map(Repetition.model_validate, held["repetitions"])),
        Counter(held["refused"]),
    )
