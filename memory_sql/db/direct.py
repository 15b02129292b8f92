"""Statements sent directly to the driver, without SQLAlchemy: for hot paths."""

from __future__ import annotations

import asyncio
import select
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import Any, NamedTuple, Protocol

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy import ARRAY, JSON, BindParameter, Dialect, Float, Numeric, Select
from sqlalchemy.exc import DisconnectionError, MissingGreenlet
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from sqlalchemy.pool import PoolProxiedConnection
from sqlalchemy.types import TypeEngine
from sqlalchemy.util import greenlet_spawn

from memory_sql.config.kinds import DEFAULT_SCHEMA
from memory_sql.db.failures import RAISED, raise_named
from memory_sql.db.naming import in_schema, schema_of
from memory_sql.db.principals import Principal, serving

FINISH_SECONDS = 2.0
ALONE = "memory_sql.alone"  # in `Session.info`: each statement commits by itself, on a connection that this lends


class Reader(Protocol):
    """What runs queries: a session, or a pooled connection without the cost of a session (`Database.reading`)."""

    async def execute(self, statement: Select[Any], parameters: Mapping[str, Any], /) -> Iterable[Any]: ...


class _Prepared(NamedTuple):
    """A statement as the driver takes it: its parameters by position, and the columns whose values must be converted.

    `own`: the parameters whose value is part of the statement.
    """

    sql: str
    given: tuple[tuple[str, Callable[[Any], Any] | None], ...]
    own: Mapping[str, Any]
    row: Callable[[Iterable[Any]], Any]
    read: tuple[tuple[int, Callable[[Any], Any]], ...]

    def values(self, parameters: Mapping[str, Any]) -> list[Any]:
        values = {**self.own, **parameters}
        return [values[name] if write is None else write(values[name]) for name, write in self.given]

    def rows(self, records: Iterable[Sequence[Any]]) -> list[Any]:
        if not self.read:
            return [self.row(record) for record in records]
        return [self.row(self._converted(record)) for record in records]

    def _converted(self, record: Sequence[Any]) -> list[Any]:
        values = list(record)
        for place, convert in self.read:
            values[place] = convert(values[place])
        return values


@lru_cache(maxsize=256)
def _prepared(statement: Select[Any], dialect: Dialect, schema: str) -> _Prepared:
    """Compiled once, if the statement was built at import; otherwise it would be compiled each time."""
    compiled: Any = statement.compile(dialect=dialect)
    asked = [name for name, bound in compiled.binds.items() if bound.required]
    written = compiled.construct_expanded_state(dict.fromkeys(asked))
    readers = enumerate(_reader(item.type, dialect) for item in statement.selected_columns)
    return _Prepared(
        sql=in_schema(written.statement, schema),
        given=tuple((name, _writer(compiled.binds.get(name), dialect)) for name in written.positiontup or ()),
        own={name: value for name, value in written.parameters.items() if name not in asked},
        row=_row_of(*statement.selected_columns.keys()),
        read=tuple((place, read) for place, read in readers if read is not None),
    )


def _writer(bound: BindParameter[Any] | None, dialect: Dialect) -> Callable[[Any], Any] | None:
    """The driver takes all values as they are, except JSON."""
    if bound is None or not isinstance(bound.type, JSON):
        return None
    return bound.type.dialect_impl(dialect).bind_processor(dialect)


def _reader(kind: TypeEngine[Any], dialect: Dialect) -> Callable[[Any], Any] | None:
    """The driver's numbers need no conversion; asking for their reader would rely on what the server says they are."""
    of = kind.item_type if isinstance(kind, ARRAY) else kind
    return None if isinstance(of, (Float, Numeric)) else kind.dialect_impl(dialect).result_processor(dialect, None)


def _row_of(*columns: str) -> Callable[[Iterable[Any]], Any]:
    named: Any = namedtuple("Row", columns)  # type: ignore[misc]  # their names are only known here
    make: Callable[[Iterable[Any]], Any] = named._make
    return make


@dataclass(frozen=True, slots=True)
class Direct:
    """A pooled connection without SQLAlchemy: no transaction, cursor or result object; each statement is one round trip.

    Statements are sent for `_schema`. `_served`: the principal that each statement names, of the library's own work; None:
    it names none.
    """

    connection: Any
    _dialect: Dialect
    _served: Principal | None = None
    _schema: str = DEFAULT_SCHEMA

    async def execute(self, statement: Select[Any], parameters: Mapping[str, Any], /) -> list[Any]:
        if self._served is not None:
            statement, parameters = serving(statement), {**parameters, "serves": self._served["agent_id"]}
        prepared = _prepared(statement, self._dialect, self._schema)
        try:
            records = await self.connection.fetch(prepared.sql, *prepared.values(parameters))
        except asyncpg.InternalClientError:
            self.connection.terminate()  # it can't be used again; the pool drops closed connections
            raise
        except (Exception, asyncio.CancelledError):
            await finish(self.connection)
            raise
        return prepared.rows(records)


async def driver_of(session: AsyncSession) -> Any:
    return (await (await session.connection()).get_raw_connection()).driver_connection


async def finish(driver: Any) -> None:
    """Ends what a call outside a transaction may have left that failed or was cancelled between preparing and executing.

    asyncpg 0.32 sends Flush after Parse, and Sync only with what is executed, not where a value can't be written. Until then
    the server is in a transaction of which the driver doesn't know: it holds locks, and the next BEGIN would go on with it,
    its time and its snapshot. Any query ends it. Where that fails, the connection is closed, and the pool drops it. In a
    transaction that the driver knows there is nothing to do: its end ends this, too.
    """
    try:
        if not driver.is_in_transaction():
            await driver.execute("SELECT", timeout=FINISH_SECONDS)
    except BaseException as error:
        driver.terminate()
        if not isinstance(error, Exception):
            raise


def drop_if_gone(connection: Any, _record: Any, _proxy: Any) -> None:
    """Drops a connection that the server closed while it was in the pool. This is known without a query, so no ping."""
    driver = connection.driver_connection
    if driver.is_closed() or has_unread(driver):
        raise DisconnectionError


def has_unread(driver: Any) -> bool:
    """Whether the server has sent something, or closed, on an idle connection, and the event loop hasn't noticed yet.

    A process that was frozen meanwhile would meet it with the first statement.
    """
    descriptor = driver._transport.get_extra_info("socket").fileno()
    if descriptor < 0:
        return True
    if not hasattr(select, "poll"):  # Windows, whose select takes any descriptor
        return bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


class Lent:
    """A connection lent by the pool (`Database.reading`); the driver's errors are translated to the library's.

    A greenlet, in which SQLAlchemy's pool may wait, takes longer than everything that the pool does. It is needed only to
    open a connection, or to close one because there are too many.
    """

    def __init__(self, engine: AsyncEngine, served: Principal | None = None, schema: str = DEFAULT_SCHEMA) -> None:
        self._engine = engine
        self._schema = schema
        self._served = served

    async def __aenter__(self) -> Direct:
        try:
            self._pooled = await self._taken()
        except RAISED as error:
            raise_named(error, self._engine.url)
        return Direct(self._pooled.driver_connection, self._engine.dialect, self._served, self._schema)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        pool: Any = self._engine.pool
        if pool.checkedin() < pool.size():
            self._pooled.close()
        else:
            await greenlet_spawn(self._pooled.close)
        if isinstance(error, RAISED):
            raise_named(error, self._engine.url)

    async def _taken(self) -> PoolProxiedConnection:
        pool: Any = self._engine.pool
        if pool.checkedin():
            with suppress(MissingGreenlet):  # the pooled one has to be reopened
                return self._engine.sync_engine.raw_connection()
        return await self._engine.raw_connection()


async def ask(session: AsyncSession | Direct, statement: Select[Any], parameters: Mapping[str, Any]) -> list[Any]:
    """The rows of a statement that was built at import. Bypasses a session whose statements each commit by themselves."""
    if isinstance(session, Direct):
        return await session.execute(statement, parameters)
    lent: Callable[[], Lent] | None = session.info.get(ALONE)
    if lent is None:
        return list(await session.execute(statement, parameters))
    if session.in_transaction():  # it has a connection, and may be the one that gets the last
        below = Direct(await driver_of(session), session.get_bind().dialect, None, schema_of(session))
        return await below.execute(statement, parameters)
    async with lent() as direct:
        return await direct.execute(statement, parameters)
