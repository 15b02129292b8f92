"""The measures of the recall benchmark, on examples computed by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benchmarks.recall.metrics import (
    Interval,
    Scores,
    bootstrap,
    hit,
    mean_scores,
    ndcg,
    paired,
    percentile,
    recall,
    reciprocal_rank,
    scores,
)

SESSION_OF = {"a": "s1", "b": "s1", "c": "s2", "d": "s3", "e": "s3", "f": "s4"}


def test_recall_is_the_share_of_the_evidence_among_the_first() -> None:
    found = ["c", "a", "d", "b"]
    assert recall(found, {"a", "b", "f"}, 1) == 0
    assert recall(found, {"a", "b", "f"}, 2) == pytest.approx(1 / 3)
    assert recall(found, {"a", "b", "f"}, 20) == pytest.approx(2 / 3)


def test_hit_asks_for_any_of_the_evidence() -> None:
    assert hit(["c", "a"], {"a", "b"}, 2) == 1
    assert hit(["c", "a"], {"a", "b"}, 1) == 0
    assert hit([], {"a"}, 5) == 0


def test_reciprocal_rank_counts_the_first_piece_only() -> None:
    assert reciprocal_rank(["c", "d", "a", "b"], {"a", "b"}) == pytest.approx(1 / 3)
    assert reciprocal_rank(["c"], {"a"}) == 0


def test_ndcg_discounts_by_place_and_compares_with_the_best_order() -> None:
    # Places 2 and 3 of 1/log2(3) and 1/log2(4); the best order has 1/log2(2) and 1/log2(3).
    wanted = (1 / math.log2(3) + 1 / 2) / (1 + 1 / math.log2(3))
    assert ndcg(["c", "a", "b"], {"a", "b"}, 10) == pytest.approx(wanted)
    assert ndcg(["a", "b", "c"], {"a", "b"}, 10) == 1


def test_ndcg_of_more_evidence_than_places_can_be_one() -> None:
    assert ndcg(["a", "b"], {"a", "b", "c"}, 2) == 1


def test_scores_of_one_question() -> None:
    found = ["d", "d", "c", "f", "a"]  # the second d doesn't push the others down
    scored = scores(found, {"a", "e"}, SESSION_OF)
    assert scored.ndcg_10 == pytest.approx((1 / math.log2(5)) / (1 + 1 / math.log2(3)))
    assert replace(scored, ndcg_10=0) == Scores(
        recall_5=0.5, recall_10=0.5, recall_20=0.5, hit_5=1, mrr=0.25, ndcg_10=0, session_5=1
    )


def test_session_is_found_without_the_turn() -> None:
    found = scores(["d"], {"e"}, SESSION_OF)
    assert (found.session_5, found.hit_5) == (1, 0)


def test_question_without_evidence_is_refused() -> None:
    with pytest.raises(ValueError, match="without evidence"):
        scores(["a"], set(), SESSION_OF)


def test_means_are_taken_measure_by_measure() -> None:
    both = mean_scores([Scores(1, 1, 1, 1, 1, 1, 1), Scores(0, 0.5, 1, 0, 0.5, 0, 1)])
    assert both == Scores(0.5, 0.75, 1, 0.5, 0.75, 0.5, 1)
    with pytest.raises(ValueError, match="no values"):
        mean_scores([])


def test_percentile_is_the_nearest_rank() -> None:
    values = [40.0, 10.0, 30.0, 20.0]
    assert [percentile(values, share) for share in (0.25, 0.5, 0.51, 0.95, 1)] == [10, 20, 30, 40, 40]
    assert percentile([7.0], 0.5) == 7


def test_bootstrap_lies_around_the_mean_and_repeats_itself() -> None:
    values = [n / 99 for n in range(100)]
    found = bootstrap(values)
    # Evenly spread over 0 to 1 they deviate by √(101 / 99 / 12) = 0.292, their mean by a tenth; 95 % lie within 1.96 of it.
    assert found.low == pytest.approx(0.5 - 1.96 * 0.0292, abs=0.006)
    assert found.high == pytest.approx(0.5 + 1.96 * 0.0292, abs=0.006)
    assert bootstrap(values) == found
    assert bootstrap(values, seed=1) != found


def test_bootstrap_of_equal_values_is_a_point() -> None:
    assert bootstrap([0.25] * 10) == Interval(0.25, 0.25)


def test_pairs_are_compared_question_by_question() -> None:
    before = [0.0, 1.0] * 50
    rise, interval = paired(before, [value + 0.1 for value in before])
    assert rise == pytest.approx(0.1)
    assert interval.low == pytest.approx(0.1)  # apart, the two would deviate by 0.07
    assert interval.high == pytest.approx(0.1)
    with pytest.raises(ValueError, match="zip"):
        paired([1.0], [1.0, 2.0])
