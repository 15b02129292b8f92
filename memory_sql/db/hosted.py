"""A host's own engine: one pool in the process. The library leaves nothing in its connections, pool or options."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from types import TracebackType
from typing import Any

from sqlalchemy import Connection, Engine, Select, Text, bindparam, cast, event, func, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.orm import Session as SyncSession
from sqlalchemy.orm import SessionTransaction
from sqlalchemy.pool import NullPool, Pool, PoolProxiedConnection, QueuePool
from sqlalchemy.util import await_only, greenlet_spawn

from memory_sql.config.kinds import DEFAULT_SCHEMA
from memory_sql.db.connecting import POOLED, RECIPE
from memory_sql.db.direct import Direct, Lent, has_unread
from memory_sql.db.engine import OVERFLOW, SERVED, SERVER_SETTINGS, Database
from memory_sql.db.failures import RAISED, named_errors, raise_named
from memory_sql.db.naming import name_schema
from memory_sql.db.principals import Principal
from memory_sql.db.urls import is_pooled
from memory_sql.db.waiting import Joinable, Limits, limits_locks
from memory_sql.errors import ConfigurationError, InputError

log = logging.getLogger("memory_sql")

# Options of a host's engine that don't suit the library's statements.
OWN_OPTIONS = {"schema_translate_map": None, "stream_results": False}
CLOSE_SECONDS = 2.0
TURNS = 10  # of the event loop at most, until it has noticed what came for a connection
SAMPLE = {"text": "é", "numbers": [1, 0.5], "nothing": None, "yes": True}

DISPOSED = "the engine of this Memory has been disposed of; close this Memory first, or open it again afterwards"
LOOP_OF_ENGINE = "the connections of engine= belong to another event loop; make an engine in each loop"


def _is_of_another_loop(pool: Pool, loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the pool's next connection belongs to another event loop. Nothing is sent on it, not even the pool's ping.

    In another event loop than its own the driver doesn't reliably raise: it may end the process with a segmentation fault.
    """
    record = pool._do_get()
    try:
        driver: Any = record.driver_connection
        return driver is not None and driver._loop is not loop
    finally:
        pool._do_return_conn(record)


def engine_of(given: object) -> AsyncEngine:
    """The engine that a host passed as `engine=`. Raises `InputError`."""
    if not isinstance(given, AsyncEngine):
        raise InputError(f"engine= must be SQLAlchemy's AsyncEngine, not {type(given).__name__}")
    if given.dialect.driver != "asyncpg":
        raise InputError(f"engine= must be on asyncpg, not {given.dialect.driver}")
    if not isinstance(given.pool, (QueuePool, NullPool)):
        raise InputError(
            f"engine= must have a pool that gives a connection to one user at a time, not {type(given.pool).__name__}"
        )
    return given


class HostDatabase(Database):
    """A `Database` on the connections of a host's engine, which stays open.

    The host's connections have no `Limited` BEGIN: what a transaction of the library sets takes a separate statement, and a
    statement that commits by itself sets what it needs.
    """

    _saves = False

    def __init__(
        self,
        engine: AsyncEngine,
        *,
        pool_size: int = 5,
        limits: Limits | None = None,
        schema: str = DEFAULT_SCHEMA,
    ) -> None:
        self.schema = schema
        self.url = engine.url
        self.pooled = is_pooled(engine.url)  # until check_schema has checked a connection
        self._pool = engine.pool
        size = engine.pool.size() if isinstance(engine.pool, QueuePool) else 0
        limits = limits or Limits()
        lent = partial(Borrowed, engine, limits.lock_limit, schema=schema)
        self._go_by(engine, limits, lent, connections=size or pool_size + OVERFLOW)

    def _view(self, isolation_level: str | None = None) -> AsyncEngine:
        level = isolation_level or "READ COMMITTED"
        leveled = self.engine.execution_options(isolation_level=level, **OWN_OPTIONS)
        view = leveled.execution_options()
        event.listen(
            view.sync_engine, "engine_connect", _make_usable
        )  # for this one only; before setting the level, which rolls back
        name_schema(view.sync_engine, self.schema)
        return view

    def _limit(self, session: SyncSession, _transaction: SessionTransaction, connection: Connection) -> None:
        if session.info.get("snapshot"):  # no query may come before it
            connection.exec_driver_sql(self._of_reads)
            return
        served = session.info.get(SERVED)
        if served is None:
            connection.execute(_limiting(self._limits))
        else:
            connection.execute(_serving(self._limits), {"agent_id": served["agent_id"]})

    def _single(self, session: Joinable | None = None, principal: Principal | None = None) -> Any:
        """A single statement, whose waiting has to be limited."""
        return self.transaction(session, principal)

    def _check_usable(self) -> None:
        super()._check_usable()
        if self.engine.pool is not self._pool:
            raise InputError(DISPOSED)

    async def check_schema(self) -> None:
        """Also raises `ConfigurationError` for an engine with its own JSON serializer or deserializer."""
        with named_errors(self.url):
            if await greenlet_spawn(_is_of_another_loop, self._pool, asyncio.get_running_loop()):
                raise InputError(LOOP_OF_ENGINE)
            self.pooled = await self._keeps_no_statements() or self.pooled
        await self._check_json()
        await super().check_schema()

    async def _keeps_no_statements(self) -> bool:
        """Whether the connection keeps no named statements, as behind a pooler that assigns servers per transaction.

        What was passed to connect shows it nowhere else.
        """
        async with self._statements() as unit:
            pooled: Any = await (await unit.connection()).get_raw_connection()
            adapted, driver = pooled.dbapi_connection, pooled.driver_connection
        keeps_none = adapted._prepared_statement_cache is None or driver._config.statement_cache_size == 0
        if keeps_none and adapted._prepared_statement_name_func() is None:  # so the driver names them
            log.warning("engine= keeps no statements, but names them, which fails behind a pooler: it needs %s", RECIPE)
        return bool(keeps_none)

    async def _check_json(self) -> None:
        async with self.statement() as unit:
            row = (await unit.execute(_SAMPLE)).one()
        if row.read != SAMPLE or type(row.read["numbers"][1]) is not float or not row.is_written:
            raise ConfigurationError(
                "json_serializer and json_deserializer of engine= must behave like json.dumps and json.loads"
            )

    @asynccontextmanager
    async def apart(self, connections: int) -> AsyncIterator[Database]:
        """With connections that are opened as the host's are, but aren't in its pool."""
        unnamed = {"prepared_statement_cache_size": 0, **POOLED} if self.pooled else {}
        engine = create_async_engine(
            "postgresql+asyncpg://",
            hide_parameters=True,
            pool_size=connections,
            connect_args={**unnamed, "async_creator_fn": lambda *_, **__: self._taken_out()},
        )
        own = HostDatabase(engine, limits=self._limits, schema=self.schema)
        own.walled, own._principal, own.pooled = self.walled, self._principal, self.pooled
        own.committed = self.committed
        try:
            yield own
        finally:
            await engine.dispose()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Any]:
        driver = await self._taken_out()
        try:
            yield driver
        finally:
            await driver.close(timeout=CLOSE_SECONDS)

    async def _taken_out(self) -> Any:
        """A connection of the driver, opened by the host's engine and removed from its pool for good."""
        self._check_usable()
        pooled = await greenlet_spawn(_checked_out, self.engine.sync_engine)
        driver = pooled.driver_connection
        pooled.detach()
        return driver

    async def close(self) -> None:
        """Does nothing: the engine is the host's."""

    async def let_go(self) -> None:
        """Does nothing either."""


class Borrowed(Lent):
    """A connection of the host's pool, whose pings and listeners may have to be awaited."""

    def __init__(
        self,
        engine: AsyncEngine,
        lock_limit: str,
        served: Principal | None = None,
        schema: str = DEFAULT_SCHEMA,
    ) -> None:
        super().__init__(engine, served, schema)
        self._lock_limit = lock_limit

    async def __aenter__(self) -> Direct:
        try:
            self._pooled = await greenlet_spawn(_checked_out, self._engine.sync_engine)
        except RAISED as error:
            raise_named(error, self._engine.url)
        return Limiting(
            self._pooled.driver_connection, self._engine.dialect, self._served, self._schema, self._lock_limit
        )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await greenlet_spawn(self._pooled.close)
        if isinstance(error, RAISED):
            raise_named(error, self._engine.url)


@dataclass(frozen=True, slots=True)
class Limiting(Direct):
    """Each statement itself sets how long it waits for a lock."""

    _lock_limit: str = ""

    async def execute(self, statement: Select[Any], parameters: Mapping[str, Any], /) -> list[Any]:
        limited = {**parameters, "lock_limit": self._lock_limit}
        return await Direct.execute(self, _limited(statement), limited)


@lru_cache(maxsize=256)
def _limited(statement: Select[Any]) -> Select[Any]:
    return statement.where(limits_locks())


def _checked_out(engine: Engine) -> PoolProxiedConnection:
    pooled = engine.raw_connection()
    with _given_back(lambda: pooled.close()):
        for _ in range(_lying(engine)):
            if not _is_gone(pooled.driver_connection):
                break
            pooled.invalidate()
            pooled = engine.raw_connection()
        _commit_what_is_set(pooled)
    return pooled


def _make_usable(connection: Connection) -> None:
    """As the library's own pool does: replaces a connection that the server has closed."""
    with _given_back(connection.close):
        for _ in range(_lying(connection.engine)):
            if not _is_gone(connection.connection.driver_connection):
                break
            connection.invalidate()
        _commit_what_is_set(connection.connection)


@contextmanager
def _given_back(give_back: Callable[[], None]) -> Iterator[None]:
    """On an error, and where the caller is cancelled: nobody else has the connection yet."""
    try:
        yield
    except BaseException:
        give_back()
        raise


def _is_gone(driver: Any) -> bool:
    """What is unread is read first: it may be a notification that the host listens for."""
    for _ in range(TURNS):
        if driver.is_closed() or not has_unread(driver):
            break
        await_only(asyncio.sleep(0))
    return bool(driver.is_closed())


def _lying(engine: Engine) -> int:
    """How many connections may have been closed while they were in the pool."""
    return engine.pool.checkedin() + 1 if isinstance(engine.pool, QueuePool) else 0


def _commit_what_is_set(pooled: PoolProxiedConnection) -> None:
    """Commits what a listener of the host may have begun, with a SET for instance: its rollback would undo our work."""
    if pooled.driver_connection.is_in_transaction():  # type: ignore[union-attr]
        pooled.commit()


@lru_cache(maxsize=16)
def _limiting(limits: Limits) -> Select[Any]:
    """What `Limited` and the settings of the library's connections do, except `jit`, which the driver would leave off."""
    settings = {
        "lock_timeout": limits.lock_limit,
        "idle_in_transaction_session_timeout": limits.idle_limit,
        **{name: SERVER_SETTINGS[name] for name in ("plan_cache_mode", "timezone")},
    }
    return select(*(func.set_config(name, value, True) for name, value in settings.items()))


@lru_cache(maxsize=16)
def _serving(limits: Limits) -> Select[Any]:
    return _limiting(limits).add_columns(func.memory.enter(bindparam("agent_id", type_=Text), None, None, True))


_SAMPLE = select(
    cast(bindparam("sample", SAMPLE, type_=JSONB), JSONB).label("read"),
    (cast(bindparam("sample", SAMPLE, type_=JSONB), JSONB) == cast(cast(json.dumps(SAMPLE), Text), JSONB)).label(
        "is_written"
    ),
)
