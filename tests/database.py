"""Looks at the database from outside: plain SQL for what the public API doesn't show, and counts of statements."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy import CursorResult, event, text
from sqlalchemy.ext.asyncio import AsyncConnection

from memory_sql.db import engine as engines
from memory_sql.db.engine import Database, Session
from memory_sql.db.principals import SERVICE
from memory_sql.db.urls import CACHE_SIZE, asyncpg_url
from memory_sql.memory import Memory
from tests import recycling

Sent = tuple[str, tuple[Any, ...]]
TOLD = "memory.scopes LEFT JOIN memory.consolidations USING (agent_key, scope_id, version)"
"""The scopes, with their texts as `content`."""


OWNERS = dict[str | None, str]()
"""With --walled: the owner's URL of a database, by its name. The application's role may do too little for a test."""


async def rows(memory: Memory, sql: str, **parameters: Any) -> list[tuple[Any, ...]]:
    """Refuses a query without columns: the driver reports no rows for it, however many there are."""
    assert not re.match(r"\s*SELECT\s+FROM\b", sql), "say SELECT 1 FROM"
    async with _of_owner(memory) as database, database.transaction(principal=SERVICE) as session:
        found = await session.execute(text(sql), parameters)
        return [] if isinstance(found, CursorResult) and not found.returns_rows else [tuple(row) for row in found]


@asynccontextmanager
async def connect_once(url: str) -> AsyncIterator[AsyncConnection]:
    """A connection for SQL of a test's own, for the schema that --schema names."""
    async with engines.connect_once(url, recycling.SCHEMA) as connection:
        yield connection


def owners_url(url: str) -> str:
    return OWNERS.get(asyncpg_url(url).database, url)


@asynccontextmanager
async def _of_owner(memory: Memory) -> AsyncIterator[Database]:
    if memory.database.url.database not in OWNERS:
        yield memory.database
        return
    database = Database(OWNERS[memory.database.url.database], schema=memory.database.schema)
    try:
        await database.look()
        yield database
    finally:
        await database.close()


def serving(memory: Memory) -> AbstractAsyncContextManager[Session]:
    """A transaction for the steps of background work: behind walls it sees what those see."""
    return memory.database.transaction(principal=SERVICE)


@contextmanager
def statements(memory: Memory) -> Iterator[list[str]]:
    """The statements sent meanwhile, whether by SQLAlchemy or by the driver directly."""
    seen: list[str] = []
    with _noting(memory, lambda statement, _: seen.append(statement)):
        yield seen


@contextmanager
def sent(memory: Memory) -> Iterator[list[Sent]]:
    """As `statements`, with their parameters."""
    seen: list[Sent] = []
    with _noting(memory, lambda statement, given: seen.append((statement, given))):
        yield seen


@contextmanager
def _noting(memory: Memory, note_one: Callable[[str, tuple[Any, ...]], None]) -> Iterator[None]:
    fetch = asyncpg.Connection.fetch

    def note(_connection: Any, _cursor: Any, statement: str, given: tuple[Any, ...], *_: Any) -> None:
        note_one(statement, given)

    async def note_direct(connection: Any, statement: str, *parameters: Any) -> Any:
        note_one(statement, parameters)
        return await fetch(connection, statement, *parameters)

    engine = memory.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    asyncpg.Connection.fetch = note_direct
    try:
        yield
    finally:
        event.remove(engine, "before_cursor_execute", note)
        asyncpg.Connection.fetch = fetch


@asynccontextmanager
async def refusing(memory: Memory, table: str) -> AsyncIterator[None]:
    """Nothing can be inserted into the table meanwhile: a model's answer arrives and is kept, but can't be applied."""
    refuses = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$"
    await rows(memory, refuses)
    await rows(memory, f"CREATE TRIGGER t BEFORE INSERT ON memory.{table} FOR EACH ROW EXECUTE FUNCTION refuse()")
    try:
        yield
    finally:
        await rows(memory, "DROP FUNCTION refuse() CASCADE")


async def are_waiting(memory: Memory, count: int) -> None:
    """Waits until so many connections wait for a lock. It polls, since there is no notification."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    async with asyncio.timeout(30):
        while True:
            if (await rows(memory, waiting))[0][0] >= count:
                return
            await asyncio.sleep(0.01)


def libpq(url: str, driver: str = "postgresql") -> str:
    """For programs and drivers that know no option of asyncpg's."""
    plain = asyncpg_url(url).set(drivername=driver).difference_update_query([CACHE_SIZE])
    return plain.render_as_string(hide_password=False)
