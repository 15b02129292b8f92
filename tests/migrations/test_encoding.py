"""A database whose encoding can't hold every text is refused by name, with the way out."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from memory_sql.errors import DatabaseError
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
