"""What time it is: by the database, so that all processes agree on it and a host whose clock is wrong does no harm."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from memory_sql.db import Database

AGREES = timedelta(seconds=1)  # less than this is the way there and back


def own_time() -> datetime:
    """By the clock of this machine."""
    return datetime.now(UTC)


class DatabaseClock:
    """The clock of this machine, put right by how far it was off when the database was opened."""

    def __init__(self) -> None:
        self._off = timedelta()

    def __call__(self) -> datetime:
        return own_time() + self._off

    async def compare(self, database: Database) -> None:
        """A second is taken for agreement: the answer takes a while."""
        before = own_time()
        there = await database.time()
        off = there - (before + (own_time() - before) / 2)
        self._off = off if abs(off) > AGREES else timedelta()
