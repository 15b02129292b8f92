"""Databases that are the shards of one memory."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import make_url, text

from memory_sql.db.joining import join
from tests import recycling
from tests.database import connect_once
from tests.recycling import administer, named

_numbers = itertools.count(1)
ENTER = text("SELECT memory.enter(NULL, NULL, NULL, true)")
CLEAN = """DO $$
DECLARE
    v_name text;
    v_full boolean;
BEGIN
    SET LOCAL session_replication_role = replica;
    FOR v_name IN
        SELECT relname FROM pg_class
        WHERE relnamespace = 'memory'::regnamespace AND relkind IN ('r', 'p')
          AND relname NOT IN ('installation', 'shards', 'alembic_version')
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM memory.%I)', v_name) INTO v_full;
        IF v_full THEN
            EXECUTE format('DELETE FROM memory.%I', v_name);
        END IF;
    END LOOP;
    UPDATE memory.shards SET agents = 0, version = number + 1;
    UPDATE memory.installation SET journal_read = 0, journal_tail = '';
    PERFORM setval(format('memory.%I', sequencename), start_value, false) FROM pg_sequences WHERE schemaname = 'memory';
END
$$"""
END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}' AND pid <> pg_backend_pid()"


@asynccontextmanager
async def fresh(server_url: str, template: str, *names: str) -> AsyncIterator[dict[str, str]]:
    """The URLs of new databases, by these names, which nobody has joined."""
    made = {name: f"memory_sql_shard_{os.getpid()}_{next(_numbers)}_{name}" for name in names}
    for database in made.values():
        await administer(server_url, f"CREATE DATABASE {database} TEMPLATE {template}")
    try:
        yield {name: named(server_url, database) for name, database in made.items()}
    finally:
        for database in made.values():
            await administer(server_url, f"DROP DATABASE {database} WITH (FORCE)")


@asynccontextmanager
async def joined(server_url: str, template: str, *names: str) -> AsyncIterator[dict[str, str]]:
    async with fresh(server_url, template, *names) as urls:
        await join(urls, recycling.SCHEMA)
        yield urls


async def clean(urls: dict[str, str]) -> None:
    """Empties them, but for what joining has left."""
    for url in urls.values():
        async with connect_once(url) as connection:
            await connection.execute(text(CLEAN.replace(":", "\\:")))


async def take_away(server_url: str, url: str) -> None:
    """Nobody can reach that database any more."""
    name = make_url(url).database
    await administer(server_url, f"ALTER DATABASE {name} ALLOW_CONNECTIONS false", END.format(name))


async def bring_back(server_url: str, url: str) -> None:
    await administer(server_url, f"ALTER DATABASE {make_url(url).database} ALLOW_CONNECTIONS true")


@asynccontextmanager
async def away(server_url: str, url: str) -> AsyncIterator[None]:
    """Nobody can reach that database meanwhile."""
    await take_away(server_url, url)
    try:
        yield
    finally:
        await bring_back(server_url, url)


async def asked(url: str, sql: str, **given: Any) -> list[tuple[Any, ...]]:
    """The rows of a query, which sees all agents."""
    async with connect_once(url) as connection:
        await connection.execute(ENTER)
        found = await connection.execute(text(sql), given)
        return [tuple(row) for row in found] if found.returns_rows else []
