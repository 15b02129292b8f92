"""Engines that outlive their `Database`: their connections know the schema, and their statements are compiled.

A new connection learns tables and functions by using them, which costs the server more than the calls of most tests do.
So the engine of a recycled database isn't disposed of when its `Database` is closed, but is reset and given to the next
`Database` with the same URL and options. Two never have the same engine at the same time.

Every engine compiles for the same dialect into the same cache: even a command's own engine finds what an earlier engine
has compiled.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
from sqlalchemy import URL, AsyncAdaptedQueuePool, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from memory_sql.db import engine as product
from memory_sql.db.engine import Database
from memory_sql.db.naming import translating
from memory_sql.db.urls import asyncpg_url
from tests import recycling

# What a session may have changed for itself. Prepared statements stay with their plans, which is why the session is kept.
# A plan for many rows is dropped when its table is emptied (tests/recycling.py). Its counts are flushed; otherwise the
# next test's transaction would include them.
RESET = """
CLOSE ALL; RESET SESSION AUTHORIZATION; RESET ALL; UNLISTEN *; SELECT pg_advisory_unlock_all();
DISCARD SEQUENCES; DISCARD TEMP; SELECT pg_stat_force_next_flush()
"""
GONE = (asyncpg.PostgresError, asyncpg.InterfaceError, DBAPIError, OSError)  # errors of a connection that has been cut
AT_MOST = 3  # kept for one database


@dataclass(slots=True, eq=False)
class Warm:
    database: str
    options: str
    engine: AsyncEngine
    connections: list[Any] = field(default_factory=list)  # asyncpg's, idle since the last reset

    @property
    def is_fresh(self) -> bool:
        """Whether the server has sent nothing since, not even the end of a connection that the loop hasn't read yet."""
        return all(not connection.is_closed() and not _readable(connection) for connection in self.connections)

    @property
    def in_use(self) -> bool:
        """Whether a session wasn't closed, or a test left a listener behind."""
        pool, dispatch = self.engine.pool, self.engine.sync_engine.dispatch
        assert isinstance(pool, AsyncAdaptedQueuePool)
        left = [one for one in dispatch.before_cursor_execute if one is not translating(recycling.SCHEMA)]
        return bool(pool.checkedout() or left or dispatch.after_cursor_execute)

    async def reset(self) -> bool:
        """Returns whether all of its connections are as new. Otherwise they are closed."""
        try:
            self.connections = await self._reset()
        except GONE:
            await self.engine.dispose()
            return False
        return True

    async def _reset(self) -> list[Any]:
        pool: Any = self.engine.pool
        connections = []
        async with AsyncExitStack() as held:
            for _ in range(pool.checkedin()):
                connection = await held.enter_async_context(self.engine.connect())
                driver: Any = (await connection.get_raw_connection()).driver_connection
                await driver.execute(RESET)
                connections.append(driver)
        return connections


def _readable(connection: Any) -> bool:
    poll = select.poll()
    poll.register(connection._transport.get_extra_info("socket"), select.POLLIN)
    return bool(poll.poll(0))


class Engines:
    """The engines of one event loop, to which their connections are bound."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._databases: set[str] = set()
        self._used: dict[AsyncEngine, Warm] = {}
        self._free: list[Warm] = []
        self._compiling: Engine | None = None  # the first engine

    @contextmanager
    def installed(self) -> Iterator[None]:
        """While this is open, each `Database` gets its engine here and returns it here."""
        dispose = Database.close

        async def close(database: Database) -> None:
            warm = self._used.pop(database.engine, None)
            if warm is None or not await self._keep(warm):
                await dispose(database)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(product, "create_async_engine", self._engine)
            patch.setattr(Database, "close", close)
            yield

    def begin(self, database: str) -> None:
        """From now on the engines of this database are kept."""
        self._databases.add(database)

    def pids(self, database: str) -> list[int]:
        """The server processes behind the kept connections."""
        kept = [warm for warm in self._free if warm.database == database and warm.is_fresh]
        return [connection.get_server_pid() for warm in kept for connection in warm.connections]

    async def end(self, database: str, *, dropped: bool) -> None:
        """To be called when a test is over. What it hasn't closed isn't kept, and nothing is if the database was dropped."""
        self._databases.discard(database)
        self._used = {engine: warm for engine, warm in self._used.items() if warm.database != database}
        kept = [warm for warm in self._free if warm.database == database]
        await self._dispose([warm for warm in kept if dropped or not warm.is_fresh])

    @asynccontextmanager
    async def kept(self, urls: Collection[str]) -> AsyncIterator[None]:
        """As `begin` and `end`, for a test whose databases aren't recycled but are emptied and used by the next one."""
        names = [str(asyncpg_url(url).database) for url in urls]
        for name in names:
            self.begin(name)
        yield
        for name in names:
            await self.end(name, dropped=False)

    async def drop(self, urls: Collection[str]) -> None:
        """Closes what was kept for these databases, which are about to be dropped."""
        for url in urls:
            await self.end(str(asyncpg_url(url).database), dropped=True)

    async def close(self) -> None:
        await self._dispose(list(self._free))

    async def _dispose(self, those: list[Warm]) -> None:
        for warm in those:
            self._free.remove(warm)
            await warm.engine.dispose()

    def _engine(self, url: URL, **options: Any) -> AsyncEngine:
        if url.database not in self._databases or "pool_size" not in options or not self._is_ours():
            return self._sharing(create_async_engine(url, **options))
        same = f"{url.render_as_string(hide_password=False)} {options}"
        found = next((warm for warm in self._free if warm.options == same and warm.is_fresh), None)
        if found is None:
            engine = self._sharing(create_async_engine(url, **options, pool_use_lifo=True))  # the warmest first
            found = Warm(str(url.database), same, engine)
        else:
            self._free.remove(found)
        self._used[found.engine] = found
        return found.engine

    def _sharing(self, made: AsyncEngine) -> AsyncEngine:
        """Shares the compiled statements, once the first engine has learnt from the server what to compile for."""
        engine, first = made.sync_engine, self._compiling
        if first is None or first.dialect.server_version_info is None:
            self._compiling = engine
        else:
            engine.dialect, engine._compiled_cache = first.dialect, first._compiled_cache
        return made

    def _is_ours(self) -> bool:
        """Commands run in loops of their own."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    async def _keep(self, warm: Warm) -> bool:
        kept = sum(other.database == warm.database for other in self._free)
        if kept >= AT_MOST or warm.in_use or not self._is_ours() or not await warm.reset():
            return False
        self._free.append(warm)
        return True
