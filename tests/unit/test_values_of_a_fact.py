"""Which of the values of a fact give way, compared with looking at each pair."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import NamedTuple

import pytest

from memory_sql.db.repositories.states import that_give_way


class Value(NamedTuple):
    scope_id: int
    seq: int
    observed_at: datetime
    created_at: datetime
    aside_at: datetime | None


def day(n: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=n)


def one_of_each_pair(values: list[Value]) -> dict[tuple[int, int], int]:
    """Where one was stored since the other was set aside, the older one gives way: to the newest such."""
    return {
        (older.scope_id, older.seq): newer.seq
        for older, newer in combinations(values, 2)
        if (older.aside_at is not None and newer.created_at >= older.aside_at)
        or (newer.aside_at is not None and older.created_at >= newer.aside_at)
    }


def test_each_gives_way_to_the_newest_that_was_stored_since() -> None:
    for seed in range(3000):
        any_ = random.Random(seed)
        values = [
            Value(
                1, seq, day(any_.randint(0, 4)), day(any_.randint(0, 6)), any_.choice([None, day(any_.randint(0, 7))])
            )
            for seq in range(any_.randint(1, 9))
        ]
        values.sort(key=lambda value: (value.observed_at, value.seq))
        assert that_give_way(values) == one_of_each_pair(values), seed


@pytest.mark.slow
def test_very_many_are_not_compared_one_by_one() -> None:
    values = [Value(1, n, day(n), day(-n), day(-n)) for n in range(50_000)]
    assert len(that_give_way(values)) == len(values) - 1
