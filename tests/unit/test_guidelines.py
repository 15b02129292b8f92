"""What is learnt from the outcomes of actions: the formula, by hand, and its bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_sql.domain.guidelines import FEWEST, LINES, MOST, Tally, delta, lines, sureness

COUNTS = st.integers(0, 60)


@pytest.mark.parametrize(
    ("tally", "found", "sure"),
    [
        (Tally(applied=4), None, None),  # too few: hold
        (Tally(), None, None),
        (Tally(applied=5), 0.12, "high"),
        (Tally(failed=5), -0.12, "high"),
        (Tally(applied=9, failed=3), 0.06, "medium"),  # .12 · 6/12
        (Tally(applied=3, deferred=7), 0.036, "low"),  # .12 · 3/10
        (Tally(applied=3, denied=2, failed=2), 0.017, "low"),  # .12 · 1/7
        (Tally(applied=10, good=4), 0.15, "high"),  # .12 + .06, clamped
        (Tally(failed=8, poor=1), -0.15, "high"),
        (Tally(applied=5, failed=5, good=3, poor=1), 0.03, "low"),  # .06 · 2/4
        (Tally(denied=6, poor=6), -0.06, "medium"),
        (Tally(applied=5, failed=5), 0.0, "low"),
    ],
)
def test_vectors_of_the_formula(tally: Tally, found: float | None, sure: str | None) -> None:
    assert delta(tally) == found
    assert found is None or sureness(found) == sure


@given(st.builds(Tally, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS))
def test_it_stays_in_its_bounds(tally: Tally) -> None:
    found = delta(tally)
    assert (found is None) == (tally.events < FEWEST)
    assert found is None or (abs(found) <= MOST and round(found, 3) == found)


def test_at_most_five_lines_the_surest_first() -> None:
    tallies = {f"action_{n}": Tally(applied=5 + n, failed=n) for n in range(8)} | {"rare": Tally(applied=4)}
    said = lines(tallies)
    assert len(said) == LINES
    assert said[0] == "action_0: it is mostly carried out; go on as before (high)."
    assert lines({"a": Tally(failed=9)}) == (
        "a: it often fails; check first what is remembered, and use it less (high).",
    )
    assert lines({"a": Tally(denied=9, poor=9)}) == (
        "a: it is often not allowed; ask the user first, and use it less (medium).",
    )
    assert lines({"a": Tally(applied=5, failed=5), "b": Tally(applied=1)}) == ()


def test_the_lines_stay_while_only_counts_change() -> None:
    assert lines({"a": Tally(applied=50)}) == lines({"a": Tally(applied=51, failed=1)})
