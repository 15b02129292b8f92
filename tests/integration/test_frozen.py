"""A process that was frozen while the server closed its connections: the next calls find no stale connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from memory_sql.config import Settings
from memory_sql.db.urls import asyncpg_url
from memory_sql.memory import Memory
from tests.database import owners_url, statements
from tests.factories import conversation
from tests.fakes import Scripted

pytestmark = pytest.mark.direct
MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
POOLED = 4


def close_all_connections(url: str) -> None:
    """Blocks the event loop until the server has closed them, as a process that is frozen sees it."""
    plain = asyncpg_url(owners_url(url)).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain, autocommit=True) as other:
        ended = other.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        assert len(ended.fetchall()) >= POOLED


@asynccontextmanager
async def opened(url: str, llm: Scripted, *, hosted: bool) -> AsyncIterator[Memory]:
    settings = Settings(llm="offline", pool_size=POOLED)
    if not hosted:
        async with Memory(url, llm, settings) as memory:
            yield memory
        return
    engine = create_async_engine(asyncpg_url(url), pool_size=POOLED)
    async with Memory(llm=llm, settings=settings, engine=engine) as memory:
        yield memory
    await engine.dispose()


async def fill(memory: Memory) -> None:
    async with AsyncExitStack() as held:
        for _ in range(POOLED):
            await held.enter_async_context(memory.database.engine.connect())
    assert memory.database.engine.pool.checkedin() == POOLED  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("hosted", [False, True], ids=["our pool", "a host's engine"])
@pytest.mark.parametrize("call", ["observe", "add", "search", "context", "list", "forget"])
async def test_no_call_fails_on_a_connection_that_the_server_closed_meanwhile(
    database_url: str, llm: Scripted, call: str, *, hosted: bool
) -> None:
    calls: dict[str, Any] = {
        "observe": lambda m: m.observe("Tea.", **MIA),
        "add": lambda m: m.add(conversation(1), **MIA, conversation_id="monday"),
        "search": lambda m: m.search("tea", **MIA),
        "context": lambda m: m.context(**MIA),
        "list": lambda m: m.observations.list(**MIA),
        "forget": lambda m: m.people.list(agent_id="ada"),
    }
    async with opened(database_url, llm, hosted=hosted) as memory:
        await memory.observe("Mia likes tea.", **MIA)
        await fill(memory)
        close_all_connections(database_url)
        await asyncio.gather(*(calls[call](memory) for _ in range(POOLED)))
        assert await memory.admin.verify() == []


async def test_looking_sends_nothing(memory: Memory) -> None:
    await memory.observe("Tea.", **MIA)
    with statements(memory) as seen:
        await memory.observations.list(**MIA)
    assert len(seen) == 1


async def test_notification_that_waits_for_a_host_costs_it_no_connection(database_url: str, llm: Scripted) -> None:
    engine = create_async_engine(asyncpg_url(database_url), pool_size=1, max_overflow=0)
    heard: list[str] = []

    def hear(*told: Any) -> None:
        heard.append(told[3])

    async with Memory(llm=llm, settings=Settings(llm="offline"), engine=engine) as memory:
        async with engine.connect() as connection:
            before = await connection.scalar(text("SELECT pg_backend_pid()"))
            raw: Any = await connection.get_raw_connection()
            await raw.driver_connection.add_listener("boats", hear)
            await connection.commit()
        plain = asyncpg_url(database_url).set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(plain, autocommit=True) as other:
            other.execute("NOTIFY boats, 'in'")
        await memory.observe("Tea.", **MIA)
        async with engine.connect() as connection:
            assert await connection.scalar(text("SELECT pg_backend_pid()")) == before
            raw = await connection.get_raw_connection()
            await raw.driver_connection.remove_listener("boats", hear)
        assert heard == ["in"]
    await engine.dispose()
