"""A replica that answers reads, as far as it has replayed what they have to see.

Whatever it can't answer (it is behind, can't be reached, was promoted, has another schema), the primary does.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Select, func, select, text

from memory_sql.db.answering import Primary, Step, T, current_position, in_bytes
from memory_sql.db.direct import Direct, Reader
from memory_sql.db.engine import Database
from memory_sql.db.principals import Principal
from memory_sql.db.waiting import Joinable
from memory_sql.errors import ConfigurationError, ConflictError, DatabaseError, PoolFullError

log = logging.getLogger("memory_sql")

ASK_SECONDS = 2.0  # that a read waits for the primary to tell its position
RETRY_SECONDS = 5.0  # between two looks at a replica that can't be used, or at a primary that doesn't answer
LOOK_SECONDS = 1.0  # for which a connection isn't asked again whether it still is to a replica
PAUSE_SECONDS = 0.01  # between two looks at how far the replica is


_STANDING = select(
    func.pg_is_in_recovery().label("is_replica"), in_bytes(func.pg_last_wal_replay_lsn()).label("replayed")
)
_INCARNATION: Select[Any] = select(func.memory.incarnation().label("incarnation"))
_TELLS_PLACE = text("SELECT has_function_privilege('pg_control_system()', 'EXECUTE')")
_PLACE = text(
    "SELECT c.system_identifier, d.oid FROM pg_control_system() c, pg_database d WHERE d.datname = current_database()"
)


class BehindError(Exception):
    """The replica hasn't replayed what the read has to see."""


class PromotedError(DatabaseError):
    """The server of `read_url` isn't a replica, or not any more: nothing follows from its position."""

    def __init__(self) -> None:
        super().__init__("the server of read_url is no replica; if it was promoted, name another one")


class Replicated(Primary):
    """Reads go to a replica that has replayed what this process has written, and what is older than `max_lag`.

    Each connection to the replica is asked how far it is, in a statement before the read, since a statement sees what was
    replayed before it began; not if it was further than that already.
    """

    def __init__(
        self, database: Database, replica: Database, max_lag_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(database)
        self.replica = replica
        self._max_lag = max_lag_seconds
        self._clock = clock
        self._writes = 0  # of this process
        self._position = self._covers = 0  # what the primary told last, and how many of the writes lie before it
        self._asked_at = self._ask_again_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None
        self._is_read = self._is_silent = self._lags = False
        self._behind: tuple[int, float] | None = None  # what the replica hadn't replayed yet, and since when
        self._standing = WeakKeyDictionary[Any, tuple[int, float]]()  # a connection's position, and when it was asked
        self._gone: str | None = None  # why the replica isn't used
        self._try_at = 0.0
        self._trying: asyncio.Task[None] | None = None
        database.committed = self.wrote

    async def open(self) -> None:
        """Raises `ConfigurationError` if it is a replica of something else, `SchemaError` if it is no replica of this."""
        try:
            await self._look()
        except PromotedError as error:
            await self.replica.check_schema()
            self._lost(error)
        except DatabaseError as error:
            self._lost(error)

    async def _look(self) -> None:
        """Raises `DatabaseError` if it can't be used now."""
        async with self.replica.reading() as reader:
            (row,) = await reader.execute(_STANDING, {})
        if not row.is_replica:
            raise PromotedError
        await self.replica.check_schema()
        await self.replica.look()
        if not await self._is_ours():
            if await _place(self.replica) != await _place(self.database):
                raise ConfigurationError("the server of read_url is a replica of another database than that of url")
            await self._become_ours()

    async def _become_ours(self) -> None:
        """The primary is in its place since just now, and that has yet to be replayed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._max_lag):
                while True:
                    await asyncio.sleep(PAUSE_SECONDS)
                    if await self._is_ours():
                        return
        raise DatabaseError("it hasn't replayed yet which database it is a replica of")

    async def _is_ours(self) -> bool:
        async with self.replica.reading() as reader:
            (found,) = await reader.execute(_INCARNATION, {})
        return str(found.incarnation) == self.database.identity.incarnation

    def wrote(self, here: bool = True) -> None:
        """Notes a commit. `here`: in the event loop; the position is asked for at once, while the primary is there."""
        self._writes += 1
        if here and self._is_read:
            self._ask()

    async def read(
        self,
        step: Step[T],
        session: Joinable | None = None,
        principal: Principal | None = None,
        after: int | None = None,
    ) -> T:
        if session is None and self._is_usable():
            needed = await self._needed()
            if needed is not None:
                try:
                    return await self._from_replica(step, principal, max(needed, after or 0))
                except BehindError:
                    pass
                except PoolFullError:
                    raise
                except ConflictError as error:
                    log.info("a read on the replica goes by the primary: %s", error)
                except DatabaseError as error:
                    self._lost(error)
        return await super().read(step, session, principal)

    async def _from_replica(self, step: Step[T], principal: Principal | None, needed: int) -> T:
        async with self.replica.reading(None, principal) as reader:
            await self._check(reader, needed)
            return await step(reader)

    async def _check(self, reader: Reader, needed: int) -> None:
        """Raises `BehindError`, `PromotedError`."""
        own = reader.connection if isinstance(reader, Direct) else None  # behind a pooler it may be another server's
        replayed, looked_at = self._standing.get(own, (0, float("-inf"))) if own is not None else (0, float("-inf"))
        now = self._clock()
        if replayed >= needed and now - looked_at < LOOK_SECONDS:
            return
        (row,) = await reader.execute(_STANDING, {})
        if not row.is_replica:
            raise PromotedError
        if own is not None:
            self._standing[own] = row.replayed or 0, now
        self._tell_lag(row.replayed or 0, needed)
        if (row.replayed or 0) < needed:
            raise BehindError

    def _tell_lag(self, replayed: int, needed: int) -> None:
        """Once when the replica begins to lag by more than it may, and once when it has caught up."""
        if self._behind is not None and replayed >= self._behind[0]:
            if self._lags:
                log.info("the replica has caught up")
            self._behind, self._lags = None, False
        if self._behind is None:
            self._behind = None if replayed >= needed else (needed, self._clock())
        elif not self._lags and self._clock() - self._behind[1] > self._max_lag:
            log.warning("the replica lags by more than %g s, reads go by the primary", self._max_lag)
            self._lags = True

    # How far the primary is

    async def _needed(self) -> int | None:
        """The position that a read needs. None: it isn't known, since the primary doesn't tell where the last write lies."""
        self._is_read = True
        own, since = self._writes, self._clock() - self._max_lag
        must = self._covers < own or not self._position
        if not must and (self._asked_at >= since or self._clock() < self._ask_again_at):
            return self._position
        try:
            async with asyncio.timeout(ASK_SECONDS):
                while self._covers < own or self._asked_at < since:
                    await asyncio.shield(self._ask())
        except (DatabaseError, TimeoutError) as error:
            return self._silent(error) if not must else None
        if self._is_silent:
            log.info("the primary is back")
        self._is_silent = False
        return self._position

    def _silent(self, error: Exception) -> int:
        """Reads go on by what is known."""
        if not self._is_silent:
            why = str(error) or "no answer"
            log.warning("reads go by the replica alone, the primary doesn't say how far it is: %s", why)
        self._is_silent = True
        self._ask_again_at = self._clock() + RETRY_SECONDS
        return self._position

    def _ask(self) -> asyncio.Task[None]:
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._asked())
            self._asking.add_done_callback(_retrieved)
        return self._asking

    async def _asked(self) -> None:
        """Until the position covers all writes."""
        while True:
            covers, at = self._writes, self._clock()
            self._position = await current_position(self.database)
            self._covers, self._asked_at = covers, at
            if self._covers == self._writes:
                return

    async def reached(self) -> None:
        """At most for `max_lag`: by then no process goes by a replica that hasn't replayed it."""
        until = self._clock() + self._max_lag
        try:
            async with asyncio.timeout(self._max_lag):
                while self._gone is None and (needed := await self._needed()) is not None:
                    if await self._has(needed):
                        return
                    await asyncio.sleep(PAUSE_SECONDS)
        except (DatabaseError, TimeoutError):
            pass
        await asyncio.sleep(max(0.0, until - self._clock()))

    async def _has(self, needed: int) -> bool:
        async with self.replica.reading() as reader:
            (row,) = await reader.execute(_STANDING, {})
        return row.is_replica and (row.replayed or 0) >= needed

    # Whether there is a replica

    def _is_usable(self) -> bool:
        """If it isn't, somebody looks from time to time whether it is back; no read waits for that."""
        if self._gone is None:
            return True
        if self._clock() >= self._try_at and (self._trying is None or self._trying.done()):
            self._trying = asyncio.create_task(self._try())
        return False

    def _lost(self, error: DatabaseError) -> None:
        if self._gone is None:
            log.warning("the replica can't be used, reads go by the primary: %s", error)
        self._gone, self._try_at = str(error), self._clock() + RETRY_SECONDS

    async def _try(self) -> None:
        try:
            await self.replica.close()  # of several hosts another may be the one; connections to the old one stay open
            await self._look()
        except (DatabaseError, ConfigurationError) as error:
            self._gone, self._try_at = str(error), self._clock() + RETRY_SECONDS
        else:
            self._gone = None
            log.info("the replica is back")

    async def close(self) -> None:
        for task in (self._asking, self._trying):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task])


async def _place(database: Database) -> tuple[Any, ...] | Database:
    """The same for a primary and its replicas; the database itself where its provider doesn't tell."""
    async with database.statement() as unit:
        is_told = (await unit.execute(_TELLS_PLACE)).scalar_one()
        return tuple((await unit.execute(_PLACE)).one()) if is_told else database


def _retrieved(task: asyncio.Task[None]) -> None:
    """Nobody may be left whom its error could tell anything."""
    if not task.cancelled():
        task.exception()
