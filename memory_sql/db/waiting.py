"""How long a call waits: for a lock, for a connection.

The limits are set in each transaction of the library, together with its BEGIN: a pooler passes on no others, and neither
does membership of a role. In the host's transaction only the time for locks is limited.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Interval,
    Select,
    Text,
    bindparam,
    case,
    cast,
    func,
    or_,
    select,
)
from sqlalchemy.exc import DBAPIError, SQLAlchemyError, UnboundExecutionError
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session
from sqlalchemy.orm import Session

from memory_sql.db.failures import LOCK_NOT_AVAILABLE, MOVED, code_of
from memory_sql.errors import InputError, LockTimeoutError, MovedAgentError


class Limits(NamedTuple):
    """How long a call waits for a lock and for a connection, and how long the library's transactions may idle."""

    lock: timedelta = timedelta(seconds=5)
    connection: timedelta = timedelta(seconds=10)
    idle: timedelta = timedelta(seconds=60)

    @property
    def lock_limit(self) -> str:
        return str(_milliseconds(self.lock))

    @property
    def idle_limit(self) -> str:
        return str(_milliseconds(self.idle))

    @property
    def of_sessions(self) -> dict[str, str]:
        """For statements without a BEGIN, where a session keeps its connection."""
        return {"lock_timeout": f"{self.lock_limit}ms"}

    @property
    def of_reads(self) -> str:
        """Readers hold no row locks, and may take long to process what they read, as an export does."""
        return f"SET LOCAL lock_timeout = {self.lock_limit};"

    @property
    def of_writes(self) -> str:
        return f"{self.of_reads}SET LOCAL idle_in_transaction_session_timeout = {self.idle_limit};"


class Limited(asyncpg.Connection):  # type: ignore[misc]
    """A connection whose transactions begin with the limits and their principal, in the same round trip.

    BEGIN has no parameters, so it uses the simple protocol, which takes several statements; a pooler keeps them together.
    """

    limits = ""

    def __init__(self, *args: Any, **named: Any) -> None:
        self._process = os.getpid()
        super().__init__(*args, **named)

    def __del__(self) -> None:
        """In a forked child the socket is the parent's, and so is what its event loop watches: neither is touched."""
        if self._process == os.getpid():
            super().__del__()

    def execute(self, query: str, *args: Any, timeout: float | None = None) -> Awaitable[str]:
        begins = bool(self.limits) and query.startswith("BEGIN")
        executed: Awaitable[str] = super().execute(query + self.limits if begins else query, *args, timeout=timeout)
        if not begins:
            return executed
        self.limits = ""  # they apply to this transaction only
        return self._begun(executed)

    async def _begun(self, executed: Awaitable[str]) -> str:
        """If what is sent with BEGIN fails, a transaction has begun of which neither the driver nor SQLAlchemy knows."""
        try:
            return await executed
        except Exception:
            if not self.is_closed():
                self._top_xact = None
                await super().execute("ROLLBACK")
            raise


class BlockingTransaction(Protocol):
    """The transaction of code that blocks, for `session=` of `memory_sql.sync`.

    A connection of psycopg, psycopg2 or Django, or SQLAlchemy's Session or Connection on one of these.
    """

    def commit(self) -> Any: ...
    def rollback(self) -> Any: ...


Joinable = AsyncSession | async_scoped_session[Any] | BlockingTransaction


async def session_of(given: object) -> AsyncSession:
    """The session that a host passed as `session=`; for a scoped session, the caller's. Raises `InputError`."""
    session = given() if isinstance(given, async_scoped_session) else given
    if not isinstance(session, AsyncSession):
        raise InputError(
            f"session= must be SQLAlchemy's AsyncSession, not {type(session).__name__}; memory_sql.sync joins transactions"
            " of code that doesn't await"
        )
    await session.run_sync(_check_session)
    return session


def _check_session(session: Session) -> None:
    bound = bound_to(session)
    if bound.dialect.driver != "asyncpg":
        raise InputError(f"session= must be on asyncpg, not {bound.dialect.driver}")
    if session.connection().connection.dbapi_connection.autocommit:  # type: ignore[union-attr]
        raise InputError("session= must have a transaction; this one is in AUTOCOMMIT")


def bound_to(session: Session) -> Engine | Connection:
    """What it is bound to for our tables. Raises `InputError`."""
    try:
        return session.get_bind()
    except UnboundExecutionError:
        raise InputError("session= must be bound to an engine; this one has none for our tables") from None


@asynccontextmanager
async def joined(session: AsyncSession, limit: timedelta) -> AsyncIterator[None]:
    """The host's transaction, with a limit on waiting for locks if it has none or a longer one, restored afterwards.

    Raises `LockTimeoutError` after waiting too long, `MovedAgentError` for an agent that moves. Other database errors are
    passed to the host as the driver raises them: it may know how to continue. After either, a rollback is needed (one to a
    savepoint is enough), which also restores the limit.
    """
    before, now = (await session.execute(_limit_locks(limit))).one()
    try:
        yield
    except BaseException as error:
        with suppress(SQLAlchemyError):  # a transaction that failed takes the setting with it when it is rolled back
            await _restore_locks(session, before)
        if isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", None) == LOCK_NOT_AVAILABLE:
            whose = "the lock_timeout of this transaction" if now == before else "lock_timeout_seconds"
            advice = "roll the transaction back, or to a savepoint before the call, and try again"
            raise LockTimeoutError(advice, whose) from None
        if isinstance(error, DBAPIError) and code_of(error.orig) == MOVED:
            raise MovedAgentError from None
        raise
    await _restore_locks(session, before)


def limits_locks() -> ColumnElement[bool]:
    """An always-true condition for a statement that may commit by itself: it limits waiting for locks to `lock_limit`."""
    limited = func.set_config("lock_timeout", bindparam("lock_limit", type_=Text), True)
    return select(limited).scalar_subquery().is_not(None)


def flushed_later() -> ColumnElement[bool]:
    """A condition, always true, of a statement that commits by itself: the commit doesn't wait for the disk.

    Only for what a crash of the server may take back: the next commit that does wait takes it along.
    """
    relaxed = func.set_config("synchronous_commit", "off", True)
    return select(relaxed).scalar_subquery().is_not(None)


async def _restore_locks(session: AsyncSession, before: str) -> None:
    await session.execute(select(func.set_config("lock_timeout", before, True)))


def _limit_locks(limit: timedelta) -> Select[Any]:
    """Sets the limit and returns the previous one, in one statement: the old value is read first."""
    old = select(func.current_setting("lock_timeout").label("value")).cte("old").prefix_with("MATERIALIZED")
    none, longer = old.c.value == "0", cast(old.c.value, Interval) > limit
    new = case((or_(none, longer), str(_milliseconds(limit))), else_=old.c.value)
    return select(old.c.value, func.set_config("lock_timeout", new, True))


def _milliseconds(limit: timedelta) -> int:
    return max(1, int(limit.total_seconds() * 1000))
