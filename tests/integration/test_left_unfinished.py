"""A statement that the driver has prepared and never executed: the connection is in no transaction for whoever comes next.

The driver doesn't tell the server that nothing more comes, so the server keeps the transaction that began with the statement,
its time and its locks, and would put the next BEGIN into it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
from sqlalchemy import Integer, Select, Text, bindparam, cast, func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine

from memory_sql.db.direct import ask
from memory_sql.db.engine import SNAPSHOT, Database
from memory_sql.db.hosted import HostDatabase
from memory_sql.db.models.agents import AgentRow
from memory_sql.db.urls import asyncpg_url
from memory_sql.errors import DatabaseError
from memory_sql.memory import Memory
from tests.database import rows

pytestmark = pytest.mark.direct  # what a server's process does that a pooler would choose
Ask = Callable[[Database, object], Awaitable[object]]
ACTIVITY = """
    SELECT state, xact_start IS NULL, (SELECT count(*) FROM pg_locks l WHERE l.pid = a.pid AND relation IS NOT NULL)
    FROM pg_stat_activity a WHERE pid = :pid
"""
IDLE = ("idle", True, 0)
numbers = count()


def agents() -> Select[Any]:
    """Another one each time: what a connection has prepared before is executed at once."""
    given = cast(cast(bindparam("n", type_=Integer), Integer), Text)
    return select(func.count().label(f"agents_{next(numbers)}")).where(AgentRow.agent_id != given)


async def directly(database: Database, value: object) -> object:
    async with database.reading() as reader:
        return await reader.execute(agents(), {"n": value})


async def in_a_session(database: Database, value: object) -> object:
    async with database.statement() as session:
        return (await session.execute(agents(), {"n": value})).one()


async def below_a_session(database: Database, value: object) -> object:
    async with database.statement() as session:
        await session.execute(select(1))
        return await ask(session, agents(), {"n": value})


async def past_a_session(database: Database, value: object) -> object:
    async with database.statement() as session:
        return await ask(session, agents(), {"n": value})


WAYS = [directly, in_a_session, below_a_session, past_a_session]


@pytest.fixture(params=["ours", "the host's"])
async def database(request: pytest.FixtureRequest, database_url: str) -> AsyncIterator[Database]:
    if request.param == "ours":
        database = Database(database_url, pool_size=1)
        yield database
        await database.close()
        return
    engine = create_async_engine(asyncpg_url(database_url), pool_size=1, max_overflow=0)
    yield HostDatabase(engine)
    await engine.dispose()


@asynccontextmanager
async def one_connection(database: Database) -> AsyncIterator[int]:
    """Its process; afterwards a transaction can begin on it as it should."""
    async with database.statement() as session:
        pid: int = (await session.execute(select(func.pg_backend_pid()))).scalar_one()
    yield pid
    async with database.transaction(snapshot=True) as session:
        await session.execute(SNAPSHOT)
        assert (await session.execute(select(func.count()).select_from(AgentRow))).scalar_one() == 0


async def activity(memory: Memory, pid: int) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await rows(memory, ACTIVITY, pid=pid)]


@pytest.mark.parametrize("way", WAYS)
async def test_statement_that_is_cancelled_before_it_is_executed(
    memory: Memory, database: Database, way: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = asyncpg.Connection._get_statement

    async def cancelled(driver: Any, query: str, *given: Any, **named: Any) -> Any:
        found = await prepared(driver, query, *given, **named)
        if "agents" in query:
            asking.cancel()
            await asyncio.sleep(0)
        return found

    async with one_connection(database) as pid:
        monkeypatch.setattr(asyncpg.Connection, "_get_statement", cancelled)
        asking = asyncio.ensure_future(way(database, 1))
        await asyncio.wait({asking})
        assert asking.cancelled()
        monkeypatch.undo()
        is_closed = way is in_a_session  # by SQLAlchemy
        assert await activity(memory, pid) == ([] if is_closed else [IDLE])


@pytest.mark.parametrize("way", WAYS)
async def test_statement_with_a_value_that_the_driver_cannot_write(
    memory: Memory, database: Database, way: Ask
) -> None:
    async with one_connection(database) as pid:
        with pytest.raises((DatabaseError, DBAPIError, asyncpg.PostgresError), match=r"integer|refused"):
            await way(database, "one")
        assert await activity(memory, pid) == [IDLE]
