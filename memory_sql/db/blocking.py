"""The transaction of a host that blocks, lent for one call: of psycopg or psycopg2, also below Django and SQLAlchemy.

Statements are compiled as for asyncpg and sent on the host's connection by the host's own thread, which waits for the call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from copy import copy
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from sqlalchemy import URL, Connection, Engine
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session
from sqlalchemy.pool import NullPool
from sqlalchemy.util import LRUCache

from memory_sql.db.blocking_cursor import PSYCOPG, PSYCOPG2, BlockingConnection, Run, is_of, plain_cursor
from memory_sql.db.commits import ON_COMMIT
from memory_sql.db.identity import PLACE
from memory_sql.db.waiting import bound_to
from memory_sql.errors import InputError

IDLE, ACTIVE, FAILED = 0, 1, 3  # a connection without a transaction, with a statement under way, and in one that failed
PIPELINE_OFF = 0  # of psycopg
OURS = "memory_sql_"  # before the name of a savepoint: SQLAlchemy's would have the names of the host's
CANCELLED_WITHIN = 5.0  # seconds, as psycopg waits
COMPILED = 500  # statements, as many as an engine keeps

POSSIBLE = (
    "a connection or cursor of psycopg, psycopg2 or Django, or SQLAlchemy's Session or Connection on one of these"
)
AWAITED = f"session= of memory_sql.sync must be {POSSIBLE}; to join an AsyncSession, await memory_sql.Memory"


class Host(NamedTuple):
    """A connection of the driver, with a transaction, and how the host sees it.

    `known`: a driver's error as the host knows it. `on_commit`: calls something after the commit; None: nothing tells.
    `spoilt`: tells the host that it can only roll back.
    """

    connection: Any
    known: Callable[[DBAPIError], Exception]
    on_commit: Callable[[Callable[[], None]], object] | None = None
    spoilt: Callable[[], object] | None = None

    @property
    def place(self) -> URL:
        info = self.connection.info
        return URL.create("postgresql", host=info.host, port=info.port, database=info.dbname)


def host_of(given: object) -> Host:
    """To be called in the host's thread. Raises `InputError` where there is no transaction of a kind that can be joined."""
    if isinstance(given, (AsyncSession, async_scoped_session, AsyncConnection)):
        raise InputError(AWAITED)
    session = given() if isinstance(given, scoped_session) else given
    if isinstance(session, (Session, Connection)):
        return _with_transaction(Host(_below_sqlalchemy(session), _as_wrapped))
    django: Any = getattr(session, "db", session)  # of its cursor
    if hasattr(django, "ensure_connection"):
        return _with_transaction(_of_django(django))
    return _with_transaction(Host(_driven(getattr(session, "connection", session), type(session).__name__), _as_raised))


def _below_sqlalchemy(session: Session | Connection) -> Any:
    dialect = bound_to(session).dialect if isinstance(session, Session) else session.dialect
    if dialect.is_async:
        raise InputError(AWAITED)
    if isinstance(session, Session):
        if session.autoflush:
            session.flush()
        connection = session.connection()
    else:
        connection = session
        if not connection.in_transaction():
            connection.begin()  # as its own first statement would: otherwise it had nothing to commit
    told = f"a {type(session).__name__} on {dialect.driver}"
    return _driven(connection.connection.driver_connection, told)


def _of_django(django: Any) -> Host:
    if django.vendor != "postgresql":
        raise InputError(f"session= must be {POSSIBLE}, not Django's on {django.vendor}")
    django.validate_thread_sharing()
    django.ensure_connection()

    def known(error: DBAPIError) -> Exception:
        try:
            with django.wrap_database_errors:
                raise _as_raised(error)
        except Exception as wrapped:  # noqa: BLE001  # it is what was just raised
            return wrapped

    connection = _driven(django.connection, type(django).__name__)
    if not django.in_atomic_block:
        return Host(connection, known)
    return Host(connection, known, django.on_commit, lambda: django.set_rollback(True))


def _driven(connection: object, given: str) -> Any:
    """A connection of one of the drivers; a host that has one has imported its driver. `given`: what the host passed."""
    if is_of(PSYCOPG, connection) or is_of(PSYCOPG2, connection):
        return connection
    raise InputError(f"session= of memory_sql.sync must be {POSSIBLE}, not {given}")


def _with_transaction(host: Host) -> Host:
    connection = host.connection
    if connection.closed:
        raise InputError("session= is of a connection that is closed")
    if connection.autocommit and connection.info.transaction_status == IDLE:
        raise InputError("session= must have a transaction; this one is in autocommit")
    if is_of(PSYCOPG, connection) and connection.info.pipeline_status != PIPELINE_OFF:
        raise InputError("session= is of a connection in pipeline mode; call memory_sql before or after the pipeline")
    return host


def _as_raised(error: DBAPIError) -> Exception:
    cause = error.driver_exception
    return cause if isinstance(cause, Exception) else error


def _as_wrapped(error: DBAPIError) -> Exception:
    """SQLAlchemy's own, of the host's driver."""
    error.orig = error.__cause__ = _as_raised(error)
    return error


def spoil(host: Host) -> None:
    """A call was interrupted in the host's thread: what it has half done can't be committed, only rolled back.

    A connection that doesn't say so afterwards is closed.
    """
    with suppress(Exception):  # which is meant; a transaction that has failed already says so too
        _end_statement(host.connection)
        plain_cursor(host.connection).execute(_SPOILS)
    if not host.connection.closed and host.connection.info.transaction_status != FAILED:
        host.connection.close()
    if host.spoilt is not None:
        host.spoilt()


def _end_statement(connection: Any) -> None:
    """psycopg cancels it itself, but where the interrupt came while it read, it leaves the statement under way."""
    if is_of(PSYCOPG, connection) and connection.info.transaction_status == ACTIVE:
        connection.cancel_safe(timeout=CANCELLED_WITHIN)
        connection.wait(import_module("psycopg.generators").fetch_many(connection.pgconn), timeout=CANCELLED_WITHIN)


_SPOILS = "DO $$ BEGIN RAISE 'a call of memory_sql was interrupted in this transaction: roll it back'; END $$"


@asynccontextmanager
async def lent(host: Host, dialect: PGDialect_asyncpg, run: Run) -> AsyncIterator[AsyncSession]:
    """A session in the host's transaction, which is neither committed nor rolled back, for as long as `run` is served.

    `dialect`: of our own engine. A database error is raised as the host knows it.
    """
    ours, compiled = _lending(dialect)
    pool = NullPool(lambda: BlockingConnection(host.connection, run, ours), dialect=ours)  # type: ignore[arg-type]
    engine = AsyncEngine(Engine(pool, ours, host.place, hide_parameters=True))
    told = {PLACE: host.place.render_as_string(), ON_COMMIT: host.on_commit}
    try:
        async with AsyncSession(engine.execution_options(compiled_cache=compiled), info=told) as session:
            yield session
    except DBAPIError as error:
        known = host.known(error)
        raise known from known.__cause__


@lru_cache(maxsize=16)
def _lending(dialect: PGDialect_asyncpg) -> tuple[_Lending, LRUCache[Any, Any]]:
    """It has found out what there is to know of the server."""
    ours = copy(dialect)
    ours.__class__ = _Lending
    return ours, LRUCache(COMPILED)  # type: ignore[return-value]


class _Lending(PGDialect_asyncpg):
    supports_statement_cache = True

    def do_savepoint(self, connection: Connection, name: str) -> None:
        super().do_savepoint(connection, OURS + name)  # type: ignore[no-untyped-call]

    def do_rollback_to_savepoint(self, connection: Connection, name: str) -> None:
        super().do_rollback_to_savepoint(connection, OURS + name)  # type: ignore[no-untyped-call]

    def do_release_savepoint(self, connection: Connection, name: str) -> None:
        super().do_release_savepoint(connection, OURS + name)  # type: ignore[no-untyped-call]

    def is_disconnect(self, *_: object) -> bool:
        """It isn't ours to open again."""
        return False
