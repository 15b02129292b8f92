"""Stores a text for a person to review, in the form in which it would be applied. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from memory_sql.consolidation.keeping import Kept
from memory_sql.consolidation.replacing import Replaced
from memory_sql.domain.scopes import Contradiction, Repetition


def unsaid_in(kept: Kept, named: Replaced) -> dict[str, Any] | None:
    """The text with the sentences that nothing shown says, and what waits for them; None: none is left out for that."""
    found = kept.unsaid
    if found is None:
        return None
    inputs = found.tells & kept.waits
    theirs = Replaced(
        tuple(item for item in named.contradictions if item.newer in inputs),
        tuple(item for item in named.repetitions if item.newer in inputs),
    )
    return whole(inputs, found.text, theirs) | {"unsaid": list(found.sentences)}


def whole(inputs: Collection[int], text: str, named: Replaced) -> dict[str, Any]:
    """A text that absorbs these observations."""
    return {
        "inputs": sorted(inputs),
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
