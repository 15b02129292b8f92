"""A figure may follow from what was said; one that doesn't costs its sentence."""

from __future__ import annotations

from datetime import UTC, datetime

from memory_sql.consolidation.figures import Source
from memory_sql.consolidation.grounding import ungrounded_in
from memory_sql.languages.dates import zone_of
from tests.derived_figures import DERIVED, Derived

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
LEAST = 0.95


def is_grounded(case: Derived, figure: str) -> bool:
    said = [Source(text, NOW) for text in case.said]
    ((figures, _),) = ungrounded_in([case.sentence.format(figure)], said, [], NOW, zone_of("UTC"))
    return not figures


def test_set_is_large_and_has_many_languages() -> None:
    assert len(DERIVED) >= 100
    assert len({case.language for case in DERIVED}) >= 8


def test_figures_that_follow_are_kept_and_invented_ones_caught() -> None:
    kept = [case for case in DERIVED if is_grounded(case, case.right)]
    caught = [case for case in DERIVED if not is_grounded(case, case.wrong)]
    lost = [f"{case.language}: {case.sentence.format(case.right)}" for case in DERIVED if case not in kept]
    let_in = [f"{case.language}: {case.sentence.format(case.wrong)}" for case in DERIVED if case not in caught]
    assert len(kept) >= LEAST * len(DERIVED), lost
    assert len(caught) >= LEAST * len(DERIVED), let_in
