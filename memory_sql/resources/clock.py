"""The current time by the database's clock, so that all processes agree and a host with a wrong clock does no harm."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from memory_sql.db import Database

AGREES = timedelta(seconds=1)  # smaller differences are the round trip
_STEADY = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def own_time() -> datetime:
    """The time by this machine's clock."""
    return datetime.now(UTC)


def steady() -> float:
    """Seconds of a clock that runs on when the machine sleeps, and that setting the time doesn't change."""
    return time.monotonic() if _STEADY is None else time.clock_gettime(_STEADY)


class DatabaseClock:
    """The time last read from the database plus what has passed since; before that, this machine's time."""

    def __init__(self) -> None:
        self._told, self._since = own_time(), steady()

    def __call__(self) -> datetime:
        return self._told + timedelta(seconds=steady() - self._since)

    async def compare(self, database: Database) -> None:
        """Adjusts to the database's time if they differ by more than a second; less may be the round trip."""
        before = self()
        there = await database.time()
        off = there - (before + (self() - before) / 2)
        if abs(off) > AGREES:
            self._told += off
