"""Databases with another encoding, which is refused by name, with the way out, and with another locale."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import asyncpg  # type: ignore[import-untyped]
import pytest

from memory_sql.config import Settings
from memory_sql.errors import DatabaseError
from memory_sql.memory import Memory
from tests.migrations.databases import fetch, upgrade
from tests.recycling import administer, named


@pytest.fixture
async def latin(server_url: str) -> AsyncIterator[str]:
    name = f"memory_sql_latin_{os.getpid()}"
    drop = f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"
    create = f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0"
    await administer(server_url, drop, create)
    yield named(server_url, name)
    await administer(server_url, drop)


async def test_upgrade_says_what_is_wrong_and_what_to_do(latin: str) -> None:
    with pytest.raises(DatabaseError, match=r"encoding isn't UTF8.*ENCODING 'UTF8' TEMPLATE template0"):
        await upgrade(latin)
    assert await fetch(latin, "SELECT 1 FROM pg_namespace WHERE nspname = 'memory'") == []


@pytest.fixture
async def international(server_url: str) -> AsyncIterator[str]:
    name = f"memory_sql_icu_{os.getpid()}"
    drop = f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"
    create = (
        f"CREATE DATABASE {name} ENCODING 'UTF8' LOCALE_PROVIDER icu ICU_LOCALE 'und' LOCALE 'C' TEMPLATE template0"
    )
    try:
        await administer(server_url, drop, create)
    except asyncpg.FeatureNotSupportedError:  # as the embedded one
        pytest.skip("this server was built without ICU")
    yield named(server_url, name)
    await administer(server_url, drop)


@pytest.mark.open
async def test_name_that_is_longer_in_lower_case_is_stored(international: str) -> None:
    """There, the dot of a capital \u0130 becomes a character of its own."""
    await upgrade(international)
    place = "\u0130" * 60
    async with Memory(international, settings=Settings(llm="offline", graph=True, episodes=True)) as memory:
        for said in (f"We met {place} today.", f"She asks for {place} again."):
            await memory.observe(said, agent_id="ada", user_id="mia")
        assert await fetch(international, "SELECT length(label) FROM memory.links WHERE kind = 'entity'") == [(100,)]
        assert list(await memory.admin.verify()) == []
