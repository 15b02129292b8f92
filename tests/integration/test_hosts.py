"""A URL with several hosts, of which one leads."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import text

from memory_sql.db.engine import connect_once
from memory_sql.db.urls import asyncpg_url
from memory_sql.errors import DatabaseError
from memory_sql.memory import Memory
from tests.postgres_like import listening, refusing, silent

pytestmark = pytest.mark.direct


def among(url: str, *ports: int, end: str) -> str:
    """The URL with further hosts before its own."""
    parsed = asyncpg_url(url)
    if not parsed.host:
        pytest.skip("the tests' server has a socket only")
    login = f"{parsed.username}:{parsed.password}" if parsed.password else f"{parsed.username}"
    hosts = ",".join([*(f"127.0.0.1:{port}" for port in ports), f"{parsed.host}:{parsed.port or 5432}"])
    return f"postgresql://{login}@{hosts}/{parsed.database}?{end}"


@pytest.mark.slow
async def test_a_silent_host_is_passed_over_and_then_asked_no_more(database_url: str) -> None:
    asked = 0

    async def counted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await silent(reader, writer)

    async with listening(counted) as port:
        url = among(database_url, port, end="connect_timeout=1&target_session_attrs=read-write")
        for _ in range(3):
            async with connect_once(url) as connection:
                assert (await connection.execute(text("SELECT 1"))).scalar_one() == 1
    assert asked == 1


async def test_a_host_that_is_starting_is_passed_over(database_url: str) -> None:
    async with (
        listening(refusing("57P03", "the database system is starting up")) as port,
        Memory(among(database_url, port, end="target_session_attrs=read-write")) as memory,
    ):
        await memory.observe("Tea.", agent_id="ada", user_id="mia")


async def test_where_no_host_leads_the_error_says_so_rather_than_that_one_is_gone(database_url: str) -> None:
    with pytest.raises(DatabaseError, match="no server is read-only"):
        await Memory(among(database_url, 1, end="target_session_attrs=read-only")).open()
