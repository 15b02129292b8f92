"""Translates the driver's errors to the library's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy import URL
from sqlalchemy.dialects.postgresql.asyncpg import AsyncAdapt_asyncpg_dbapi
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from memory_sql.db.connecting import POOLER, REFUSALS, not_connected, refused
from memory_sql.errors import (
    ConflictError,
    DatabaseError,
    LockTimeoutError,
    MovedAgentError,
    PoolFullError,
    ReadOnlyError,
    SchemaError,
)

NO_SCHEMA = {"3F000", "42P01", "42703"}  # no such schema, table, column
LOCK_NOT_AVAILABLE = "55P03"
CONFLICTS = {"40001", "40P01"}  # not serializable, deadlock
READ_ONLY = "25006"
READ_ONLY_BY = "the database or the transaction is read-only (SQLSTATE {}): a replica, or default_transaction_read_only"
MOVED = "MS001"  # our own: an agent that is in another shard now
LOST = "the database can't be reached"
CONNECTION_LOST = "08"  # the class of its error codes
CLOSED = "connection is closed"  # how the driver says so of a connection that it knows to be closed, without a code
RAISED = (
    DBAPIError,
    AsyncAdapt_asyncpg_dbapi.Error,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a connection was lost during a query
    PoolTimeoutError,
    OSError,
)
PLAINLY = {
    "53100": "the database's disk is full; what was being written wasn't stored",
    "53200": "the database is out of memory",
    "57014": "the database cancelled the statement",
    "57P01": "the database is shutting down",
    "57P02": "the database has crashed and is restarting",
    "22P05": "the database's encoding isn't UTF8, so it can't hold every text; use one that was created with"
    " ENCODING 'UTF8' TEMPLATE template0",
    "42501": "the database user isn't allowed to do this",
}
STATEMENT_GONE = {"26000", "42P05"}  # no such prepared statement; it is there already


def code_of(error: BaseException | None) -> str | None:
    """The SQLSTATE, as the drivers keep it, also those of hosts."""
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)


def _named(error: BaseException | None, url: URL | None) -> DatabaseError:
    """The library's error for what the driver raised."""
    code = code_of(error)
    if code in NO_SCHEMA:
        return SchemaError("the database has no schema of this release; run `memory-sql db upgrade`")
    if code == LOCK_NOT_AVAILABLE:
        return LockTimeoutError(f"try again (SQLSTATE {code})")
    if code in CONFLICTS:
        return ConflictError(f"others were writing the same rows (SQLSTATE {code}); nothing was written, try again")
    if code == MOVED:
        return MovedAgentError()
    if code == READ_ONLY:
        return ReadOnlyError(READ_ONLY_BY.format(code))
    if code in STATEMENT_GONE:
        return DatabaseError(f"another connection has the prepared statement (SQLSTATE {code}): {POOLER}")
    if code in REFUSALS:
        return refused(code, url)
    if code in PLAINLY:
        return DatabaseError(f"{PLAINLY[code]} (SQLSTATE {code})")
    if code is None and isinstance(error, asyncpg.InterfaceError) and CLOSED in str(error):
        return DatabaseError("the database closed the connection")
    if code is None:
        return DatabaseError(f"the database driver failed: {type(error).__name__}")
    if code.startswith(CONNECTION_LOST):
        return DatabaseError(f"the database closed the connection (SQLSTATE {code})")
    constraint = getattr(error, "constraint_name", None)
    which = f", constraint {constraint}" if constraint else ""
    return DatabaseError(f"the database refused the statement: SQLSTATE {code}{which}")


def raise_named(error: Exception, url: URL | None = None) -> NoReturn:
    """Raises the library's error for what the driver raised (`RAISED`), without its cause: Postgres quotes the row.

    `url`: where that was.
    """
    if isinstance(error, OSError):
        where = not_connected(error, url) if url is not None else DatabaseError(f"{LOST}: {type(error).__name__}")
        raise where from error
    if isinstance(error, PoolTimeoutError):
        raise PoolFullError from None
    if isinstance(error, DBAPIError):
        raise _named(error.driver_exception, url) from None
    if isinstance(error, AsyncAdapt_asyncpg_dbapi.Error):  # raised while connecting, where SQLAlchemy doesn't wrap it
        raise _named(error.__cause__, url) from None
    raise _named(error, url) from None


@contextmanager
def named_errors(url: URL | None = None) -> Iterator[None]:
    """Translates the driver's errors to the library's."""
    try:
        yield
    except RAISED as error:
        raise_named(error, url)
