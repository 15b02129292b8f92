"""What time it is: by the database, so that all processes agree on it and a host whose clock is wrong does no harm."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from memory_sql.db import Database

AGREES = timedelta(seconds=1)  # less than this is the way there and back
_STEADY = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def own_time() -> datetime:
    """By the clock of this machine."""
    return datetime.now(UTC)


def steady() -> float:
    """Seconds that go on when the machine sleeps and when somebody sets its clock."""
    return time.monotonic() if _STEADY is None else time.clock_gettime(_STEADY)


class DatabaseClock:
    """The time that the database told last, and what has passed since; until it is asked, that of this machine."""

    def __init__(self) -> None:
        self._told, self._since = own_time(), steady()

    def __call__(self) -> datetime:
        return self._told + timedelta(seconds=steady() - self._since)

    async def compare(self, database: Database) -> None:
        """A second is taken for agreement: the answer takes a while."""
        before = self()
        there = await database.time()
        off = there - (before + (self() - before) / 2)
        if abs(off) > AGREES:
            self._told += off
