from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from memory_sql.domain.reading import Asked, RetrievalStats, Retrieved
from memory_sql.errors import DatabaseError, MemorySQLError, ReadOnlyError
from memory_sql.retrieval.counters import Counters, words_fall_short

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


class Written:
    """What was written; `fails` is raised instead, as long as it is there. Each write waits until it is let go."""

    def __init__(self) -> None:
        self.batches: list[list[Asked]] = []
        self.retrieved: list[list[Retrieved]] = []
        self.fails: MemorySQLError | None = None
        self.calls = 0
        self.called = asyncio.Event()
        self.let_go = asyncio.Event()
        self.let_go.set()

    async def __call__(self, asked: Sequence[Asked], retrieved: Sequence[Retrieved]) -> None:
        self.calls += 1
        self.called.set()
        await self.let_go.wait()
        if self.fails is not None:
            raise self.fails
        self.batches.append(list(asked))
        self.retrieved.append(list(retrieved))


def counters(written: Written, after_queries: int = 100, after_seconds: float = 1e6) -> Counters:
    return Counters(written, after_queries=after_queries, after_seconds=after_seconds)


async def test_queries_of_a_kind_are_added_up_and_written_at_the_end() -> None:
    written = Written()
    counting = counters(written)
    counting.count("ada", NOON, "search", "asked", hits=2, seconds=0.25)
    counting.count("ada", NOON, "search", "asked", hits=0, seconds=0.5)
    counting.count("ada", NOON, "context", None, seconds=0.125)
    counting.count("bob", NOON, "search", "asked", hits=1, seconds=1.0)
    await counting.close()
    (batch,) = written.batches
    day = NOON.date()
    assert batch == [
        Asked("ada", day, "search", "asked", 2, 1, 0.75, 0.5),
        Asked("ada", day, "context", "none", 1, 0, 0.0, 0.0),
        Asked("bob", day, "search", "asked", 1, 0, 1.0, 1.0),
    ]


async def test_what_was_shown_is_added_up_by_observation_day_and_surface() -> None:
    written = Written()
    counting = counters(written, after_queries=4)
    counting.count("ada", NOON, "search", "asked", hits=2, shown=["o1-1", "o1-2"])
    counting.count("ada", NOON, "search", "asked", hits=1, shown=["o1-1"])
    counting.count("ada", NOON, "context", "found", hits=1, shown=["o1-1"])
    counting.count("ada", NOON + timedelta(days=1), "search", "asked", hits=0)
    counting.count("bob", NOON + timedelta(days=1), "search", "asked", hits=1, shown=["o1-1"])
    await counting.close()
    day, next_day = NOON.date(), NOON.date() + timedelta(days=1)
    assert [one for batch in written.retrieved for one in batch] == [
        Retrieved("ada", day, "search", "o1-1", 2),
        Retrieved("ada", day, "search", "o1-2", 1),
        Retrieved("ada", day, "context", "o1-1", 1),
        Retrieved("bob", next_day, "search", "o1-1", 1),
    ]


async def test_nothing_counted_writes_nothing() -> None:
    written = Written()
    await counters(written).close()
    assert written.calls == 0


async def test_enough_queries_are_written_without_anybody_waiting() -> None:
    written = Written()
    written.let_go.clear()
    counting = counters(written, after_queries=3)
    for _ in range(3):
        counting.count("ada", NOON, "search", "asked")
    await asyncio.wait_for(written.called.wait(), 10)
    for _ in range(7):  # go to the next batch; the first is still being written
        counting.count("ada", NOON, "search", "asked")
    written.let_go.set()
    await counting.close()
    assert [sum(one.queries for one in batch) for batch in written.batches] == [3, 7]


async def test_few_queries_are_written_after_a_while() -> None:
    written = Written()
    counting = counters(written, after_seconds=0.001)
    counting.count("ada", NOON, "search", "asked")
    await asyncio.wait_for(written.called.wait(), 10)
    await counting.close()
    assert [len(batch) for batch in written.batches] == [1]


async def test_failing_write_is_logged_once_and_raises_nothing(caplog: pytest.LogCaptureFixture) -> None:
    written = Written()
    written.fails = DatabaseError("no")
    counting = counters(written, after_queries=1)
    with caplog.at_level(logging.INFO, "memory_sql"):
        for _ in range(3):
            written.called.clear()
            counting.count("ada", NOON, "search", "asked")
            await asyncio.wait_for(written.called.wait(), 10)
            await counting.close()
        written.fails = None
        counting.count("ada", NOON, "search", "asked")
        await counting.close()
    assert [record.message for record in caplog.records] == ["the counts of 1 queries were lost: no"]
    assert [len(batch) for batch in written.batches] == [1]


async def test_replica_is_asked_to_take_counts_once() -> None:
    written = Written()
    written.fails = ReadOnlyError("no")
    counting = counters(written, after_queries=1)
    for _ in range(3):
        counting.count("ada", NOON, "search", "asked")
        await counting.close()
    assert written.calls == 1


@pytest.mark.parametrize(
    ("stats", "short"),
    [
        (RetrievalStats(), False),
        (RetrievalStats(queries=9, reasons={"none": 9}), False),
        (RetrievalStats(queries=5, fired=5, without_hit=1, mean_ms=100.0, slowest_ms=900.0), False),
        (RetrievalStats(queries=5, fired=5, without_hit=0, mean_ms=100.5, slowest_ms=100.5), True),
        (RetrievalStats(queries=5, fired=5, without_hit=2, mean_ms=1.0, slowest_ms=1.0), True),
    ],
)
def test_words_fall_short_where_they_are_slow_or_find_nothing(stats: RetrievalStats, short: bool) -> None:
    """R124, R138."""
    assert words_fall_short(stats) is short
