"""Savepoints in transactions of the library and of hosts, below SQLAlchemy's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

from sqlalchemy import text
from sqlalchemy.exc import PendingRollbackError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession, AsyncTransaction

# Keys of `Session.info`:
OWN = "memory_sql.own"  # the transaction is the library's; the value counts its savepoints
UNUSED = "memory_sql.unused"  # the savepoint `FIRST` was sent with BEGIN, and nobody has used it yet
FIRST = "memory_sql_first"


@asynccontextmanager
async def savepoint(session: AsyncSession) -> AsyncIterator[AsyncTransaction]:
    """A savepoint below SQLAlchemy's own transactions, so that the session's events don't report it.

    Pending changes of the host are flushed first: the session wouldn't know that they were rolled back.
    """
    if OWN in session.info:  # rolling back to the first one would undo this one too
        session.info[UNUSED] = False
    if session.autoflush:
        await session.flush()
    async with (await session.connection()).begin_nested() as begun:
        yield begun


@asynccontextmanager
async def taken_back_on_error(session: AsyncSession) -> AsyncIterator[None]:
    """As `savepoint`. In a transaction of the library the commit releases it, which saves a round trip.

    The first one may have been sent with BEGIN, which saves another.
    """
    if OWN not in session.info:
        async with savepoint(session):
            yield
        return
    is_first, session.info[UNUSED] = session.info.get(UNUSED), False
    session.info[OWN] += 1  # savepoints may be nested, so each has its own name
    name = FIRST if is_first else f"memory_sql_{session.info[OWN]}"
    if not is_first:
        await session.execute(text(f"SAVEPOINT {name}"))
    try:
        yield
    except Exception as error:
        with suppress(*_told(error)):
            await session.execute(text(f"ROLLBACK TO SAVEPOINT {name}"))
        session.info[UNUSED] = is_first  # it still exists
        raise


@asynccontextmanager
async def taken_back(session: AsyncSession) -> AsyncIterator[None]:
    """What is done inside is rolled back at the end, and its locks are released.

    Where the first savepoint was sent with BEGIN and nobody has used it yet, this is all that is sent.
    """
    if session.info.get(UNUSED):  # what is done inside may use it as well: it goes on existing
        try:
            async with _ended_by(partial(session.execute, text(f"ROLLBACK TO SAVEPOINT {FIRST}"))):
                yield
        finally:
            session.info[UNUSED] = True
        return
    async with savepoint(session) as begun, _ended_by(begun.rollback):
        yield


@asynccontextmanager
async def _ended_by(undo: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    try:
        yield
    except BaseException as error:
        try:
            await undo()
        except SQLAlchemyError as failed:
            if not (isinstance(error, SQLAlchemyError) or _is_lost(failed)):
                raise
        raise
    await undo()


def _is_lost(error: SQLAlchemyError) -> bool:
    """Whether the connection is, and all of the transaction with it: also where the call was cancelled in a statement."""
    return isinstance(error, PendingRollbackError) or getattr(error, "connection_invalidated", False)


def _told(error: BaseException) -> tuple[type[SQLAlchemyError], ...]:
    """What rolling back after that raises is nothing new: that the connection is lost, or BEGIN has failed."""
    return (SQLAlchemyError,) if isinstance(error, SQLAlchemyError) else ()
