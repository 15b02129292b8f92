"""Connections: how the library reaches Postgres."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from copy import copy
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any, Protocol

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy import (
    URL,
    Dialect,
    Float,
    Interval,
    Numeric,
    Select,
    case,
    cast,
    event,
    func,
    make_url,
    or_,
    select,
    text,
)
from sqlalchemy.dialects.postgresql.asyncpg import AsyncAdapt_asyncpg_dbapi
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncEngine,
    AsyncSession,
    AsyncTransaction,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session as SyncSession
from sqlalchemy.orm import SessionTransaction
from sqlalchemy.pool import NullPool
from sqlalchemy.types import TypeEngine
from sqlalchemy.util import greenlet_spawn

from memory_sql.db.principals import SERVICE, Principal, named, walls_stand
from memory_sql.db.recorded import recorded
from memory_sql.errors import ConfigurationError, ConflictError, DatabaseError, InputError, ReadOnlyError, SchemaError

Session = AsyncSession

SNAPSHOT = text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")  # before anything is asked

# Point look-ups with array parameters never switch to a generic plan by themselves, and compiling them costs more than
# running them (measured; see docs).
SERVER_SETTINGS = {
    "application_name": "memory_sql",
    "jit": "off",
    "default_transaction_isolation": "read committed",  # what the statements are written for
    "plan_cache_mode": "force_generic_plan",
    "timezone": "UTC",
}

# Options in a URL: those that SQLAlchemy hands to asyncpg, and those of libpq that asyncpg reads in a URL of its own.
OPTIONS = set("host port user password database ssl command_timeout target_session_attrs krbsrvname".split())
LIBPQ_OPTIONS = set("sslmode sslcert sslkey sslrootcert sslcrl sslpassword passfile application_name options".split())
CACHE_SIZE = "prepared_statement_cache_size"

# Behind PgBouncer in transaction mode the next transaction may run on another server: nothing of a session lasts, no
# named statement either, and PgBouncer itself knows only some settings.
POOLED = {"statement_cache_size": 0, "prepared_statement_name_func": lambda: ""}
POOLED_SETTINGS = {name: SERVER_SETTINGS[name] for name in ("application_name", "timezone")}


def asyncpg_url(url: str | URL) -> URL:
    """Any usual way to write a Postgres URL, for asyncpg; raises `ConfigurationError`, without the password."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ConfigurationError(
            "the database URL can't be read; write postgresql://user:password@host:5432/name"
        ) from None
    if parsed.get_backend_name() not in ("postgresql", "postgres"):
        raise ConfigurationError(f"the database must be Postgres, not {parsed.get_backend_name()}")
    unknown = sorted(set(parsed.query) - OPTIONS - LIBPQ_OPTIONS - {CACHE_SIZE})
    if unknown:
        raise ConfigurationError(f"the database URL has options that can't be used here: {', '.join(unknown)}")
    return parsed.set(drivername="postgresql+asyncpg")


def is_pooled(url: URL) -> bool:
    """Whether the URL says, in SQLAlchemy's words, that a pooler gives out the server by transaction."""
    return url.query.get(CACHE_SIZE) == "0"


def _engine(url: URL, settings: Mapping[str, str], **options: Any) -> AsyncEngine:
    own = {**settings, **{name: value for name, value in url.query.items() if name in LIBPQ_OPTIONS}}
    return create_async_engine(
        url.difference_update_query(LIBPQ_OPTIONS),
        hide_parameters=True,  # an error message must not carry remembered text
        connect_args={
            "dsn": URL.create("postgresql", query=own).render_as_string() if own else None,
            **(POOLED if is_pooled(url) else {}),
        },
        **options,
    )


NO_SCHEMA = {"3F000", "42P01", "42703"}  # no such schema, table, column
LOCK_NOT_AVAILABLE = "55P03"
CONFLICTS = {"40001", "40P01", LOCK_NOT_AVAILABLE}  # not serializable, deadlock
READ_ONLY = "25006"
NOT_TO_BE_HAD = {"3D000": "database", "28000": "user", "28P01": "user"}


def _named(error: BaseException | None) -> DatabaseError:
    """Of what the driver raised."""
    code = getattr(error, "sqlstate", None)
    if code in NO_SCHEMA:
        return SchemaError("the database has no schema of this release; run `memory-sql db upgrade`")
    if code in CONFLICTS:
        return ConflictError(f"others were writing the same (SQLSTATE {code}); nothing was written, try again")
    if code == READ_ONLY:
        return ReadOnlyError(f"the database only answers, it takes nothing in (SQLSTATE {code})")
    if code in NOT_TO_BE_HAD:
        return DatabaseError(f"the server doesn't let this {NOT_TO_BE_HAD[code]} in (SQLSTATE {code})")
    if code is None:
        return DatabaseError(f"the driver refused: {type(error).__name__}")
    constraint = getattr(error, "constraint_name", None)
    return DatabaseError(f"the database refused: SQLSTATE {code}{f', constraint {constraint}' if constraint else ''}")


@contextmanager
def named_errors() -> Iterator[None]:
    """Turns what the driver raises into errors of ours, without their cause: Postgres quotes the row that it refuses."""
    try:
        yield
    except DBAPIError as error:
        raise _named(error.driver_exception) from None
    except AsyncAdapt_asyncpg_dbapi.Error as error:  # from connecting, where SQLAlchemy doesn't wrap it any further
        raise _named(error.__cause__) from None
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise _named(error) from None
    except PoolTimeoutError:
        raise DatabaseError("no connection has become free in time; raise MEMORY_SQL_POOL_SIZE") from None
    except OSError as error:
        raise DatabaseError(f"the database can't be reached: {type(error).__name__}") from error


def _drop_if_closed(connection: Any, _record: Any, _proxy: Any) -> None:
    """The server said goodbye while this connection lay in the pool: known without asking, so no ping is needed."""
    if connection.driver_connection.is_closed():
        raise DisconnectionError


class Reader(Protocol):
    """What can be asked: a session, or a connection of ours without what a session costs (`Database.reading`)."""

    async def execute(self, statement: Select[Any], parameters: Mapping[str, Any], /) -> Iterable[Any]: ...


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A statement as the driver takes it: its parameters by place, and the columns that come otherwise than as values.

    `own` are the parameters that stand in the statement with their value.
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
def _prepared(statement: Select[Any], dialect: Dialect) -> _Prepared:
    """Compiled once: the statement is one that was built at import, or it would be compiled each time."""
    compiled: Any = statement.compile(dialect=dialect)
    asked = [name for name, bound in compiled.binds.items() if bound.required]
    written = compiled.construct_expanded_state(dict.fromkeys(asked))
    readers = enumerate(_reader(item.type, dialect) for item in statement.selected_columns)
    return _Prepared(
        sql=written.statement,
        given=tuple((name, written.processors.get(name)) for name in written.positiontup or ()),
        own={name: value for name, value in written.parameters.items() if name not in asked},
        row=_row_of(*statement.selected_columns.keys()),
        read=tuple((place, read) for place, read in readers if read is not None),
    )


def _reader(kind: TypeEngine[Any], dialect: Dialect) -> Callable[[Any], Any] | None:
    """Numbers are as the driver brings them; to ask for their reader takes the server's word for what they are."""
    return None if isinstance(kind, (Float, Numeric)) else kind.dialect_impl(dialect).result_processor(dialect, None)


def _row_of(*columns: str) -> Callable[[Iterable[Any]], Any]:
    named: Any = namedtuple("Row", columns)  # type: ignore[misc]  # their names are known only now
    make: Callable[[Iterable[Any]], Any] = named._make
    return make


class _Direct:
    """A pooled connection below SQLAlchemy: no transaction, no cursor, no result; each statement is one round trip."""

    def __init__(self, connection: Any, dialect: Dialect) -> None:
        self._connection = connection
        self._dialect = dialect

    async def execute(self, statement: Select[Any], parameters: Mapping[str, Any], /) -> list[Any]:
        prepared = _prepared(statement, self._dialect)
        return prepared.rows(await self._connection.fetch(prepared.sql, *prepared.values(parameters)))


class Database:
    """An engine for units of work and, on the same pool, one for single statements that commit by themselves.

    Where row-level policies hold (`walled`), each unit of work names the principal that it is given first,
    and without one sees nothing. Elsewhere that costs no statement.
    """

    def __init__(self, url: str | URL, *, pool_size: int = 5) -> None:
        self.url = asyncpg_url(url)
        self.walled = False  # until find_walls has asked
        self._principal: Principal | None = None
        settings = POOLED_SETTINGS if is_pooled(self.url) else SERVER_SETTINGS
        self.engine = _engine(self.url, settings, pool_size=pool_size)
        event.listen(self.engine.sync_engine, "checkout", _drop_if_closed)
        self._units = async_sessionmaker(self.engine, expire_on_commit=False)
        # asyncpg prepares a statement, then executes it: only a transaction makes a pooler leave both to one server.
        single = self.engine if is_pooled(self.url) else self.engine.execution_options(isolation_level="AUTOCOMMIT")
        self._statements = async_sessionmaker(single, expire_on_commit=False)

    def serving(self) -> Database:
        """The same, for the library's own work: what names no principal works for all agents."""
        own = copy(self)
        own._principal = SERVICE
        return own

    @asynccontextmanager
    async def transaction(
        self,
        session: AsyncSession | None = None,
        principal: Principal | None = None,
        *,
        locks_for: timedelta | None = None,
        snapshot: bool = False,
    ) -> AsyncIterator[AsyncSession]:
        """A transaction of ours, committed at the end; with the host's session, the host's, which the host commits.

        `snapshot`: the first thing that is done in it is to make it see one moment only. That can't come after naming a
        principal, so then it is done before that as well.

        What writes says how long it may wait for a lock while the host's transaction holds others (`locks_for`).
        """
        if session is not None:
            async with _joined(session, locks_for), self._as(session, principal):
                yield session
            return
        with named_errors():
            async with self._units.begin() as own:
                if snapshot and self.walled:
                    await own.execute(SNAPSHOT)
                async with self._as(own, principal, ends=True):
                    yield own

    @asynccontextmanager
    async def statement(
        self,
        session: AsyncSession | None = None,
        principal: Principal | None = None,
        *,
        locks_for: timedelta | None = None,
    ) -> AsyncIterator[AsyncSession]:
        """For one statement: without BEGIN and COMMIT around it, save behind a pooler or where a principal is named first.

        With the host's session, in the host's transaction. What passes the walls by itself needs no principal.
        """
        if session is not None or (self.walled and (principal or self._principal)):
            async with self.transaction(session, principal, locks_for=locks_for) as unit:
                yield unit
            return
        with named_errors():
            async with self._statements.begin() as own:
                yield own

    @asynccontextmanager
    async def reading(
        self, session: AsyncSession | None = None, principal: Principal | None = None
    ) -> AsyncIterator[Reader]:
        """To ask statements that were built at import and only read, each seeing its own moment; made for hot paths.

        Without a session to join, a principal to name or a pooler between, they go past SQLAlchemy to the driver, which
        takes half the time. Rows have their columns as attributes either way. `principal` as for `statement`.
        """
        if session is not None or is_pooled(self.url) or (self.walled and (principal or self._principal)):
            async with self.statement(session, principal) as unit:
                yield unit
            return
        with named_errors():
            pooled = await self.engine.raw_connection()
            try:
                yield _Direct(pooled.driver_connection, self.engine.dialect)
            finally:
                await greenlet_spawn(pooled.close)

    @asynccontextmanager
    async def _as(self, unit: AsyncSession, principal: Principal | None, *, ends: bool = False) -> AsyncIterator[None]:
        whose = principal or self._principal
        if whose is None or not self.walled:
            yield
            return
        async with named(unit, whose, ends=ends):
            yield

    async def find_walls(self) -> None:
        """Asks once whether row-level policies hold, for this role or for what it calls."""
        async with self.statement() as session:
            self.walled = await walls_stand(session)

    async def check_schema(self) -> None:
        """Raises `SchemaError` unless the database is exactly at this release's revision."""
        async with self.statement() as session:
            (await recorded(session)).check()

    async def close(self) -> None:
        await self.engine.dispose()


async def savepoint(session: AsyncSession) -> AsyncTransaction:
    """To go back to: its rollback also gives back the locks that were taken since. The session's events don't tell of it."""
    return await (await session.connection()).begin_nested()


def on_commit(session: AsyncSession, call: Callable[[], None]) -> None:
    """Calls it once, when the transaction of this session has been committed; not if it is rolled back.

    Nor if the host goes back to a savepoint of its own from before.
    """
    waiting, around = [call], list[SessionTransaction]()
    transaction = session.sync_session.get_nested_transaction()
    while transaction is not None:
        around.append(transaction)
        transaction = transaction.parent

    def committed(committing: SyncSession) -> None:
        if waiting and not committing.in_nested_transaction():
            waiting.pop()()

    def rolled_back(_session: SyncSession, transaction: SessionTransaction) -> None:
        if transaction in around:
            waiting.clear()

    def ended(_session: SyncSession, transaction: SessionTransaction) -> None:
        if transaction.parent is None:
            waiting.clear()  # a later transaction of the same session is not this one

    event.listen(session.sync_session, "after_commit", committed)
    event.listen(session.sync_session, "after_soft_rollback", rolled_back)
    event.listen(session.sync_session, "after_transaction_end", ended)


@asynccontextmanager
async def _joined(session: AsyncSession, locks_for: timedelta | None) -> AsyncIterator[None]:
    """The host's transaction, with a limit on waiting for locks where it has none or a longer one, restored afterwards.

    Raises `ConflictError` when it was waited for too long; other errors of the database are the host's, as the driver
    tells them: it may know how to go on. After either only a rollback does, also one to a savepoint; that restores the
    limit as well.
    """
    before = None if locks_for is None else await session.scalar(_limit_locks(locks_for))
    try:
        yield
    except InputError:  # ours: the transaction is as it was
        await _restore_locks(session, before)
        raise
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != LOCK_NOT_AVAILABLE:
            raise
        raise ConflictError(
            "others hold what this call has to lock; roll the transaction back, or to a savepoint before the call, and"
            " try again"
        ) from None
    await _restore_locks(session, before)


async def _restore_locks(session: AsyncSession, before: str | None) -> None:
    if before is not None:
        await session.execute(select(func.set_config("lock_timeout", before, True)))


def _limit_locks(limit: timedelta) -> Select[Any]:
    """Sets it and says what it was; both in one statement, the old value is read first."""
    old = select(func.current_setting("lock_timeout").label("value")).cte("old").prefix_with("MATERIALIZED")
    milliseconds = str(int(limit.total_seconds() * 1000))
    none, longer = old.c.value == "0", cast(old.c.value, Interval) > limit
    new = case((or_(none, longer), milliseconds), else_=old.c.value)
    return select(old.c.value, func.set_config("lock_timeout", new, True))


@asynccontextmanager
async def connect_once(url: str | URL) -> AsyncIterator[AsyncConnection]:
    """One connection in one transaction, without a pool."""
    engine = _engine(asyncpg_url(url), {}, poolclass=NullPool)
    try:
        async with engine.begin() as connection:
            yield connection
    finally:
        await engine.dispose()
