"""Connections: how the library reaches Postgres."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from copy import copy
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from sqlalchemy import URL, event, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session as SyncSession
from sqlalchemy.orm import SessionTransaction, sessionmaker
from sqlalchemy.pool import NullPool

from memory_sql.config.kinds import DEFAULT_SCHEMA
from memory_sql.db.commits import on_commit, tells_commit
from memory_sql.db.connecting import POOLED, connect
from memory_sql.db.direct import ALONE, Lent, Reader, driver_of, drop_if_gone, finish
from memory_sql.db.failures import RAISED, raise_named
from memory_sql.db.identity import Identity
from memory_sql.db.naming import NAMED, name_schema, named_within
from memory_sql.db.pooling import Pool
from memory_sql.db.principals import SERVICE, Principal, entering, looked_at, named, serves
from memory_sql.db.recorded import recorded
from memory_sql.db.savepoints import FIRST, OWN, UNUSED
from memory_sql.db.urls import LIBPQ_OPTIONS, OWN_OPTIONS, asyncpg_url, is_pooled
from memory_sql.db.waiting import Joinable, Limited, Limits, joined, session_of
from memory_sql.errors import ConflictError, ForkedError, InputError, LockTimeoutError, PoolFullError

Done = TypeVar("Done")
Session = AsyncSession

TIMES_AGAIN = 5
FIRST_PAUSE_SECONDS = 0.02  # longest pause before the first retry; doubled for each further one
SNAPSHOT = text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")  # must come before any query

# Point look-ups with array parameters never switch to a generic plan by themselves, and compiling them costs more than
# running them (measured; see docs).
SERVER_SETTINGS = {
    "application_name": "memory_sql",
    "jit": "off",
    "default_transaction_isolation": "read committed",  # the level that the statements are written for
    "plan_cache_mode": "force_generic_plan",
    "timezone": "UTC",
}

OVERFLOW = 10  # additional connections under load, beyond those that the pool keeps
WRITING = 2 / 3  # largest share of the connections used by writers; the rest is left to readers, which wait for nobody
POOLED_SETTINGS = {name: SERVER_SETTINGS[name] for name in ("application_name", "timezone")}

# Keys of `Session.info`:
SERVED = "memory_sql.served"  # the principal that is named together with BEGIN
SAVED = "memory_sql.saved"  # the savepoint `FIRST` is sent together with BEGIN

NO_LOOP = (
    "memory_sql.Memory is awaited in an event loop of asyncio, and none runs here; use memory_sql.sync, under trio with"
    " trio.to_thread.run_sync"
)
OTHER_LOOP = (
    "this Memory was opened in another event loop, which its connections belong to; open one in each loop, or use"
    " memory_sql.sync, which has a loop of its own"
)
ENDED_LOOP = (
    "this Memory was opened in an event loop that has ended since, and its connections with it; close() it here and open it"
    " again, or use memory_sql.sync, which has a loop of its own"
)


def engine_to(url: URL, settings: Mapping[str, str], schema: str = DEFAULT_SCHEMA, **options: Any) -> AsyncEngine:
    """An engine of the library's own, with these settings for its sessions, for our schema of that name."""
    own = {**settings, **{name: value for name, value in url.query.items() if name in LIBPQ_OPTIONS}}
    engine = create_async_engine(
        url.difference_update_query(OWN_OPTIONS),
        hide_parameters=True,  # an error message must not contain remembered text
        connect_args={
            "dsn": URL.create("postgresql", query=own).render_as_string() if own else None,
            "connection_class": Limited,
            "async_creator_fn": partial(connect, url),
            **(POOLED if is_pooled(url) else {}),
        },
        **options,
    )
    name_schema(engine.sync_engine, schema)
    return engine


def running_loop() -> asyncio.AbstractEventLoop:
    """Raises `InputError` where none runs."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise InputError(NO_LOOP) from None


def _untold(here: bool = True) -> None:
    """Nobody wants to know."""


class Attempt:
    """A transaction of the library, which is retried after a conflict with others (a deadlock, an old snapshot)."""

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[AsyncSession]]) -> None:
        self._open = opened
        self._conflicts = 0
        self.ended = False

    async def __aenter__(self) -> AsyncSession:
        self.ended = True
        self._transaction = self._open()
        return await self._transaction.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> bool:
        try:
            await self._transaction.__aexit__(kind, error, at)
        except ConflictError as conflict:
            return await self._again_after(conflict)
        return isinstance(error, ConflictError) and await self._again_after(error)

    async def _again_after(self, conflict: ConflictError) -> bool:
        if isinstance(conflict, LockTimeoutError) or self._conflicts == TIMES_AGAIN:
            raise conflict
        await asyncio.sleep(random.uniform(0, FIRST_PAUSE_SECONDS * 2**self._conflicts))
        self._conflicts += 1
        self.ended = False
        return True


class Database:
    """An engine for units of work and, on the same pool, one for single statements that commit by themselves.

    Where row-level policies apply (`walled`), each unit of work first names the principal that it is given; without one it
    sees nothing. Elsewhere that costs no statement.
    """

    _saves = True  # a savepoint may be sent with BEGIN

    def __init__(
        self,
        url: str | URL,
        *,
        pool_size: int = 5,
        limits: Limits | None = None,
        schema: str = DEFAULT_SCHEMA,
    ) -> None:
        self.schema = schema
        self.url = asyncpg_url(url)
        self.pooled = is_pooled(self.url)
        limits = limits or Limits()
        settings = POOLED_SETTINGS if self.pooled else {**SERVER_SETTINGS, **limits.of_sessions}
        waits = limits.connection.total_seconds()
        engine = engine_to(
            self.url, settings, schema, poolclass=Pool, pool_size=pool_size, max_overflow=OVERFLOW, pool_timeout=waits
        )
        event.listen(engine.sync_engine, "checkout", drop_if_gone)
        self._go_by(engine, limits, partial(Lent, engine, schema=schema), connections=pool_size + OVERFLOW)

    def _go_by(self, engine: AsyncEngine, limits: Limits, lent: Callable[..., Lent], *, connections: int) -> None:
        """`connections`: the most that are open at once."""
        self.engine = engine
        self._lent = lent
        self.walled = self.has_vectors = False  # until somebody looks
        self._principal: Principal | None = None
        self.identity = Identity(engine)
        self.committed: Callable[..., None] = _untold  # called after each commit of a write
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._limits = limits
        self._of_reads, self._of_writes = limits.of_reads, limits.of_writes
        self._waits = limits.connection.total_seconds()
        self._writing = asyncio.Semaphore(max(1, int(connections * WRITING)))
        units = sessionmaker()
        event.listen(units, "after_begin", self._limit)
        self._units = async_sessionmaker(self._view(), sync_session_class=units, expire_on_commit=False)
        alone = self._view("AUTOCOMMIT")
        self._statements = async_sessionmaker(alone, expire_on_commit=False, info=self._info(**{ALONE: self._lent}))

    def _info(self, **info: Any) -> dict[str, Any]:
        return {**info, NAMED: self.schema}

    def _view(self, isolation_level: str | None = None) -> AsyncEngine:
        return self.engine.execution_options(isolation_level=isolation_level) if isolation_level else self.engine

    def _limit(self, session: SyncSession, _transaction: SessionTransaction, connection: Any) -> None:
        """Runs before BEGIN is sent, which happens with the first statement."""
        limits = self._of_reads if session.info.get("snapshot") else self._of_writes
        served = session.info.get(SERVED)
        naming = entering(served, self.schema) if served else ""
        saving = f"SAVEPOINT {FIRST};" if session.info.get(SAVED) else ""
        connection.connection.driver_connection.limits = limits + naming + saving

    def serving(self) -> Database:
        """The same, for the library's own work: a unit of work that names no principal works for all agents."""
        own = copy(self)
        own._principal = SERVICE
        return own

    def naming_nobody(self) -> Database:
        """The same, for functions that name their principal themselves and so need none named first."""
        own = copy(self)
        own._principal = None
        return own

    @asynccontextmanager
    async def apart(self, connections: int) -> AsyncIterator[Database]:
        """The same, with this many connections of its own, closed at the end together with what their sessions created."""
        own = Database(self.url, pool_size=connections, limits=self._limits, schema=self.schema)
        own.walled, own._principal, own.committed = self.walled, self._principal, self.committed
        try:
            yield own
        finally:
            await own.close()

    async def write(
        self,
        step: Callable[[AsyncSession], Awaitable[Done]],
        session: Joinable | None = None,
        principal: Principal | None = None,
        *,
        single: bool = False,
        direct: bool = False,
        locks: bool = False,
    ) -> Done:
        """Runs `step` in a transaction of the library and commits it, or in the host's session. Returns what `step` returns.

        The library's transaction is retried up to five times after a conflict with others (a deadlock, an old snapshot),
        so `step` must be repeatable. The host's is never retried. Writers leave some connections to readers. `single`: it
        is one statement, as for `statement`; `direct`: one that was built at import, as for `reading`; `locks`: it begins
        by taking locks, and may release them again (`under_locks`). Raises `LockTimeoutError`, `PoolFullError`.
        """
        if session is not None:
            async with (
                self._hosts(session) as host,
                joined(host, self._limits.lock),
                self._as(host, principal),
            ):
                done = await step(host)
                self._tell_hosts(host)
                return done
        for attempt in self.attempts(principal, single=single, direct=direct, locks=locks):
            async with attempt as unit:
                done = await step(unit)
        return done

    def attempts(
        self, principal: Principal | None = None, *, single: bool = False, direct: bool = False, locks: bool = False
    ) -> Iterator[Attempt]:
        """The transactions of `write`, for callers that run their own code in them:

            for attempt in database.attempts():
                async with attempt as unit:
                    done = await step(unit)

        Ends after the first one without a conflict. There are at most five retries; the conflict of the last one is raised.
        """
        opened: Any = self.reading if direct else self._single if single else partial(self.transaction, locks=locks)
        attempt = Attempt(partial(self._in_turn, opened, principal))
        while not attempt.ended:
            yield attempt

    @asynccontextmanager
    async def _in_turn(self, opened: Any, principal: Principal | None) -> AsyncIterator[AsyncSession]:
        """Waits for its turn without holding a connection."""
        self._check_usable()
        try:
            async with asyncio.timeout(self._waits if self._writing.locked() else None):
                await self._writing.acquire()
        except TimeoutError:
            raise PoolFullError(self._waits) from None
        try:
            async with opened(principal=principal) as unit:
                yield unit
            self.committed()
        finally:
            self._writing.release()

    @property
    def has_replica(self) -> bool:
        """Whether reads may go to one, which has to be asked for what is committed here."""
        return self.committed is not _untold

    def _tell_hosts(self, host: AsyncSession) -> None:
        """Once the host has committed, where that can be known."""
        if self.has_replica and tells_commit(host):
            on_commit(host, partial(self.committed, False))

    @asynccontextmanager
    async def transaction(
        self,
        session: Joinable | None = None,
        principal: Principal | None = None,
        *,
        snapshot: bool = False,
        locks: bool = False,
    ) -> AsyncIterator[AsyncSession]:
        """A transaction of the library, committed at the end; or that of the host's session, which the host commits.

        `snapshot`: it only reads, and first sets an isolation level in which it sees a single moment. That can't come after
        naming a principal, so it is done before. Writers use `write`. `locks` as there.
        """
        if session is not None:
            async with self._hosts(session) as host, self._as(host, principal):
                yield host
            return
        self._check_usable()
        served = None if snapshot else self._served(principal)
        saved = (
            locks and self._saves and (served or not self.walled)
        )  # a principal that is named later would be rolled back too
        try:
            info = self._info(**{"snapshot": snapshot, SERVED: served, SAVED: saved, UNUSED: saved, OWN: 0})
            async with self._units(info=info) as own, own.begin():
                if snapshot and self.walled:
                    await own.execute(SNAPSHOT)
                if served:  # BEGIN names it
                    yield own
                    return
                async with self._as(own, principal, ends=True):
                    yield own
        except RAISED as error:
            raise_named(error, self.url)

    @asynccontextmanager
    async def statement(
        self, session: Joinable | None = None, principal: Principal | None = None
    ) -> AsyncIterator[AsyncSession]:
        """For one statement, without BEGIN and COMMIT, except behind a pooler or if a principal is named first.

        With the host's session, it runs in the host's transaction. Functions that name their principal need none; for the
        library's own work `ask` names it in the statement. asyncpg prepares a statement, then executes it: only in a
        transaction does a pooler send both to the same server connection.
        """
        if self._needs_more(session, principal):
            async with self.transaction(session, principal) as unit:
                yield unit
            return
        self._check_usable()
        served = self._served(principal)
        if served is None:
            own = self._statements()
        else:  # what `ask` sends names it; with anything else a transaction begins, which names it as well
            own = self._units(info=self._info(**{ALONE: partial(self._lent, served=served), SERVED: served, OWN: 0}))
        try:
            try:
                yield own
                if own.in_transaction():
                    await own.commit()
            except RAISED:
                if own.in_transaction() and not (await own.connection()).invalidated:
                    await finish(await driver_of(own))
                raise
            finally:
                if own.in_transaction():
                    await asyncio.shield(own.close())
        except RAISED as error:
            raise_named(error, self.url)

    def reading(
        self, session: Joinable | None = None, principal: Principal | None = None
    ) -> AbstractAsyncContextManager[Reader]:
        """For statements that were built at import and only read, each with its own snapshot; made for hot paths.

        Without a session to join, a principal to name or a pooler in between, they go directly to the driver, which takes
        half the time. Rows have their columns as attributes either way. `principal` as for `statement`.
        """
        if self._needs_more(session, principal):
            return self.statement(session, principal)
        self._check_usable()
        return self._lent(served=self._served(principal))

    def _needs_more(self, session: Joinable | None, principal: Principal | None) -> bool:
        """Whether more is needed than a connection for a statement that commits by itself."""
        whose = principal or self._principal
        return session is not None or self.pooled or (self.walled and whose is not None and not serves(whose))

    def _served(self, principal: Principal | None) -> Principal | None:
        """The principal of the library's own work, where it has to be named."""
        whose = principal or self._principal
        return whose if self.walled and serves(whose) else None

    def _single(
        self, session: Joinable | None = None, principal: Principal | None = None
    ) -> AbstractAsyncContextManager[AsyncSession]:
        return self.statement(session, principal)

    @asynccontextmanager
    async def _hosts(self, session: Joinable) -> AsyncIterator[AsyncSession]:
        """The session that a host passed as `session=`. Raises `InputError`, also for one of another database."""
        self._check_process()
        host = await session_of(session)
        async with named_within(host, self.schema):
            await self.identity.check(host)
            yield host

    def _check_process(self) -> None:
        """Raises `ForkedError` in a forked child: its connections are the parent's."""
        if self._process != os.getpid():
            raise ForkedError

    def _check_usable(self) -> None:
        """Raises `InputError`."""
        self.check_loop()

    def check_loop(self) -> None:
        """Raises `InputError` in another event loop than the one that opened the connections: they belong to that loop."""
        self._check_process()
        running = running_loop()
        if self._loop is None:
            self._loop = running
        elif self._loop is not running:
            raise InputError(ENDED_LOOP if self.has_ended else OTHER_LOOP)

    @property
    def has_ended(self) -> bool:
        """Whether the event loop of the connections is over: nothing can be awaited on them any more."""
        return self._loop is not None and self._loop.is_closed()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Any]:
        """A connection of the driver, outside the pool, for as long as somebody listens."""
        async with connect_once(self.url) as connection:
            yield (await connection.get_raw_connection()).driver_connection

    @asynccontextmanager
    async def _as(self, unit: AsyncSession, principal: Principal | None, *, ends: bool = False) -> AsyncIterator[None]:
        whose = principal or self._principal
        if whose is None or not self.walled:
            yield
            return
        async with named(unit, whose, ends=ends):
            yield

    async def look(self) -> None:
        """Notes whether policies apply to this role, or to the functions that it calls, and whether anything has a vector."""
        async with self.statement() as session:
            self.walled, self.has_vectors = await looked_at(session)

    async def check_schema(self) -> None:
        """Raises `SchemaError` unless the database is exactly at this release's revision."""
        async with self.statement() as session:
            (await recorded(session)).check()

    async def time(self) -> datetime:
        """The time of the server's clock."""
        async with self.statement() as session:
            at: datetime = (await session.execute(select(func.clock_timestamp()))).scalar_one()
            return at

    async def close(self) -> None:
        """In a forked child the connections are left as they are: they are the parent's."""
        await self.engine.dispose(close=self._process == os.getpid())

    async def let_go(self) -> None:
        """Of connections whose event loop has ended. The server learns of it at once; nothing is awaited on them."""
        pool: Any = self.engine.pool
        while pool.checkedin():
            driver = pool._do_get().driver_connection
            if driver is not None and not driver.is_closed():
                with suppress(OSError):  # the server was first
                    driver._transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        await self.engine.dispose(close=False)


@asynccontextmanager
async def connect_once(url: str | URL, schema: str = DEFAULT_SCHEMA) -> AsyncIterator[AsyncConnection]:
    """One connection in one transaction, without a pool."""
    async with engine_once(url, schema, poolclass=NullPool) as engine, engine.begin() as connection:
        yield connection


@asynccontextmanager
async def engine_once(url: str | URL, schema: str = DEFAULT_SCHEMA, **options: Any) -> AsyncIterator[AsyncEngine]:
    """For several transactions, one after the other."""
    engine = engine_to(asyncpg_url(url), {}, schema, **options)
    try:
        yield engine
    finally:
        await engine.dispose()
