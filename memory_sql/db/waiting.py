"""How long a call waits: for a lock, for a connection.

The limits are set in each transaction of ours, together with its BEGIN: a pooler hands on no others, and a role that
somebody is a member of doesn't either. In the host's transaction only the time for locks is limited.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy import ColumnElement, Interval, Select, Text, bindparam, case, cast, func, or_, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError, UnboundExecutionError
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session
from sqlalchemy.orm import Session

from memory_sql.db.failures import LOCK_NOT_AVAILABLE
from memory_sql.errors import InputError, LockTimeoutError


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a call waits for a lock and for a connection, and a transaction of ours stands still before it is ended."""

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
        """For what has no BEGIN, where a session stays with its connection."""
        return {"lock_timeout": f"{self.lock_limit}ms"}

    @property
    def of_reads(self) -> str:
        """Who reads holds no row; and may take long for what was read, as an export does."""
        return f"SET LOCAL lock_timeout = {self.lock_limit};"

    @property
    def of_writes(self) -> str:
        return f"{self.of_reads}SET LOCAL idle_in_transaction_session_timeout = {self.idle_limit};"


class Limited(asyncpg.Connection):  # type: ignore[misc]
    """A connection whose transactions begin with limits, in the same round trip, and with the principal that they serve.

    BEGIN has no parameters, so it goes by the simple protocol, which takes several statements; a pooler leaves them together.
    """

    limits = ""

    def execute(self, query: str, *args: Any, timeout: float | None = None) -> Awaitable[str]:
        limited = query + self.limits if query.startswith("BEGIN") else query
        if limited != query:
            self.limits = ""  # and of no other transaction
        executed: Awaitable[str] = super().execute(limited, *args, timeout=timeout)
        return executed


async def session_of(given: object) -> AsyncSession:
    """What a host passes as `session=`; of a scoped one that of who calls. Raises `InputError`."""
    session = given() if isinstance(given, async_scoped_session) else given
    if not isinstance(session, AsyncSession):
        raise InputError(f"session= must be SQLAlchemy's AsyncSession, not {type(session).__name__}")
    await session.run_sync(_check_session)
    return session


def _check_session(session: Session) -> None:
    try:
        bound = session.get_bind()
    except UnboundExecutionError:
        raise InputError("session= must be bound to an engine; this one has none for our tables") from None
    if bound.dialect.driver != "asyncpg":
        raise InputError(f"session= must be on asyncpg, not {bound.dialect.driver}")
    if session.connection().connection.dbapi_connection.autocommit:  # type: ignore[union-attr]
        raise InputError("session= must have a transaction; this one is in AUTOCOMMIT")


@asynccontextmanager
async def joined(session: AsyncSession, limit: timedelta) -> AsyncIterator[None]:
    """The host's transaction, with a limit on waiting for locks where it has none or a longer one, restored afterwards.

    Raises `LockTimeoutError` when it was waited for too long; other errors of the database are the host's, as the driver
    tells them: it may know how to go on. After either only a rollback does, also one to a savepoint; that restores the
    limit as well.
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
        raise
    await _restore_locks(session, before)


def limits_locks() -> ColumnElement[bool]:
    """A condition, always true, of a statement that may commit by itself: no lock is waited for longer than `lock_limit`."""
    limited = func.set_config("lock_timeout", bindparam("lock_limit", type_=Text), True)
    return select(limited).scalar_subquery().is_not(None)


def flushed_later() -> ColumnElement[bool]:
    """A condition, always true, of a statement that commits by itself: the commit doesn't wait for the disk.

    Only for what a crash of the server may take back: the next commit that does wait takes it along.
    """
    relaxed = func.set_config("synchronous_commit", "off", True)
    return select(relaxed).scalar_subquery().is_not(None)


def lock_limit(seconds: float) -> str:
    """For `limits_locks`."""
    return f"{_milliseconds(timedelta(seconds=seconds))}ms"


async def _restore_locks(session: AsyncSession, before: str) -> None:
    await session.execute(select(func.set_config("lock_timeout", before, True)))


def _limit_locks(limit: timedelta) -> Select[Any]:
    """Sets it and says what it was; both in one statement, the old value is read first."""
    old = select(func.current_setting("lock_timeout").label("value")).cte("old").prefix_with("MATERIALIZED")
    none, longer = old.c.value == "0", cast(old.c.value, Interval) > limit
    new = case((or_(none, longer), str(_milliseconds(limit))), else_=old.c.value)
    return select(old.c.value, func.set_config("lock_timeout", new, True))


def _milliseconds(limit: timedelta) -> int:
    return max(1, int(limit.total_seconds() * 1000))
