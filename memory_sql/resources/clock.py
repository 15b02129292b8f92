"""The current time by the database's clock, so that all processes agree and a host with a wrong clock does no harm."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime, timedelta

from memory_sql.db import Database
from memory_sql.errors import MemorySQLError

log = logging.getLogger("memory_sql")

COMPARE_SECONDS = 60.0
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
        self._compared_at = self._since
        self._comparing: asyncio.Task[None] | None = None

    def __call__(self) -> datetime:
        return self._told + timedelta(seconds=steady() - self._since)

    async def compare(self, database: Database) -> None:
        """Adjusts to the database's time if they differ by more than a second; less may be the round trip."""
        self._compared_at, before = steady(), self()
        there = await database.time()
        off = there - (before + (self() - before) / 2)
        if abs(off) > AGREES:
            self._told += off

    def compare_soon(self, database: Database) -> None:
        """In a task, if that was a minute ago: meanwhile the server's clock may have been set, or another server leads."""
        if steady() - self._compared_at < COMPARE_SECONDS or self._comparing is not None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # somebody asks for the time from another thread
        self._compared_at = steady()
        self._comparing = loop.create_task(self._compare(database))

    async def _compare(self, database: Database) -> None:
        try:
            await self.compare(database)
        except MemorySQLError as error:
            log.debug("the clock of the database can't be read: %s", error)
        finally:
            self._comparing = None

    async def close(self) -> None:
        if self._comparing is not None:
            self._comparing.cancel()
            await asyncio.wait([self._comparing])
            self._comparing = None
