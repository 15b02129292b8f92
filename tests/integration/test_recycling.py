"""The databases that tests use one after the other: what one test leaves, the next doesn't find."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from memory_sql.db.urls import asyncpg_url
from memory_sql.domain.selection import Selection
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory
from tests.factories import message
from tests.recycling import Contents, Databases, administer, connect, copy, fingerprint

CHANGES = {
    "column": "ALTER TABLE memory.messages ADD COLUMN own int",
    "table of the host": "CREATE TABLE public.orders (id int)",
    "schema": "CREATE SCHEMA app",
    "view": "DROP VIEW {view}",
    "function": "CREATE FUNCTION memory.own() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "trigger": "ALTER TABLE memory.messages DISABLE TRIGGER ALL",
    "comment": "COMMENT ON TABLE memory.messages IS 'own'",
    "grant": "GRANT SELECT ON memory.messages TO PUBLIC",
    "grant on the database": "GRANT CREATE ON DATABASE {database} TO PUBLIC",
    "setting of the database": "ALTER DATABASE {database} SET search_path = memory",
    "setting of a role": "ALTER ROLE CURRENT_USER IN DATABASE {database} SET work_mem = '1MB'",
    "sequence": "ALTER SEQUENCE memory.scopes_scope_id_seq INCREMENT BY 2",
    "statistics": "ANALYZE memory.alembic_version",
}
OVER = {
    "temporary table": "CREATE TEMPORARY TABLE own (id int); INSERT INTO own VALUES (1); ANALYZE own",
    "change taken back": "ALTER TABLE memory.messages DISABLE TRIGGER ALL; ALTER TABLE memory.messages ENABLE TRIGGER ALL",
}


@pytest.fixture
async def own(server_url: str, template: str) -> AsyncIterator[Databases]:
    """None that another test has used."""
    databases = Databases(server_url, template)
    yield databases
    await databases.close()


async def contents(url: str) -> Contents:
    connection = await connect(url)
    try:
        return await Contents.read(connection)
    finally:
        await connection.close()


async def live(url: str) -> None:
    """Writes into every table that a host's calls reach."""
    async with Memory(url, Offline()) as memory:
        ada: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
        await memory.add(
            [message("I like tea."), message("I live in Oslo.", n=2)], **ada, conversation_id="s", group_ids=["g"]
        )
        await memory.run_due(limit=100)
        await memory.forget(Selection(user_id="mia", query="Oslo"), agent_id="ada")


@pytest.mark.slow
async def test_what_a_test_wrote_is_gone_and_the_same_database_is_given_again(own: Databases) -> None:
    url = await own.take()
    before = await contents(url)
    await live(url)
    assert (await contents(url)).rows.keys() > before.rows.keys()
    assert await own.give_back(url)
    assert await own.take() == url
    assert await contents(url) == before
    assert await own.give_back(url)


@pytest.mark.slow
async def test_life_on_a_recycled_database_writes_the_same_ids(own: Databases) -> None:
    lives = []
    for _ in range(2):
        url = await own.take()
        await live(url)
        connection = await connect(url)
        lives.append(await connection.fetch("SELECT agent_key, scope_id FROM memory.scopes ORDER BY scope_id"))
        await connection.close()
        assert await own.give_back(url)
    assert lives[0] == lives[1] != []


@pytest.mark.slow
async def test_rows_and_counters_that_the_template_has_come_back(server_url: str, template: str) -> None:
    name = f"{template}_with_rows"
    seed = "INSERT INTO memory.agents (agent_id, created_at) VALUES ('seed', now())"
    url = await copy(server_url, template, name)
    await administer(url, seed)
    seeded = Databases(server_url, name)
    try:
        url = await seeded.take()
        before = await contents(url)
        assert {"agents", "alembic_version"} <= before.rows.keys()
        await live(url)
        as_replica = "SET session_replication_role = replica"
        other = "UPDATE memory.alembic_version SET version_num = 'other'"
        await administer(url, as_replica, "DELETE FROM memory.agents", other)
        assert await seeded.give_back(url)
        assert await contents(url) == before
    finally:
        await seeded.close()
        await administer(server_url, f"DROP DATABASE {name}")


@pytest.mark.parametrize("change", CHANGES)
async def test_database_is_dropped_once_more_than_rows_has_changed(
    own: Databases, server_url: str, change: str
) -> None:
    url = await own.take()
    database = asyncpg_url(url).database
    connection = await connect(url)
    view = await connection.fetchval("SELECT format('memory.%I', viewname) FROM pg_views WHERE schemaname = 'memory'")
    await connection.execute(CHANGES[change].format(database=database, view=f"{view} CASCADE"))
    await connection.close()
    assert not await own.give_back(url)
    assert (own.free, own.dropped) == ([], 1)
    assert not await exists(server_url, str(database))


@pytest.mark.parametrize("change", OVER)
async def test_database_is_kept_once_its_catalogue_is_as_it_was(own: Databases, change: str) -> None:
    url = await own.take()
    for _ in range(2):
        connection = await connect(url)
        await connection.execute(OVER[change])
        await connection.close()
        assert await own.give_back(url)
        assert await own.take() == url
    connection = await connect(url)
    await connection.execute(f"{OVER[change]}; CREATE SCHEMA app")
    await connection.close()
    assert not await own.give_back(url)


async def exists(server_url: str, database: str) -> bool:
    connection = await connect(server_url)
    try:
        return bool(await connection.fetchval("SELECT count(*) FROM pg_database WHERE datname = $1", database))
    finally:
        await connection.close()


async def test_sessions_that_a_test_leaves_are_ended_with_what_they_hold(own: Databases) -> None:
    url = await own.take()
    left, spared = await connect(url), await connect(url)
    await left.execute("BEGIN; LOCK TABLE memory.messages; SELECT pg_advisory_lock(7)")
    assert await own.give_back(url, spared=[spared.get_server_pid()])
    assert await spared.fetchval("SELECT count(*) FROM memory.messages") == 0
    with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError, asyncpg.InterfaceError)):
        await left.execute("SELECT 1")
    await spared.close()


@pytest.mark.slow
async def test_test_may_end_all_sessions_or_drop_its_database(own: Databases, server_url: str) -> None:
    url = await own.take()
    database = asyncpg_url(url).database
    copied = await copy(server_url, str(database), f"copied_{os.getpid()}")
    assert await own.give_back(url)
    assert await own.take() == url
    await administer(server_url, f"DROP DATABASE {database} WITH (FORCE)")
    assert not await own.give_back(url)
    await administer(server_url, f"DROP DATABASE {asyncpg_url(copied).database}")


async def test_two_at_once_have_a_database_each(own: Databases) -> None:
    first, second = await own.take(), await own.take()
    assert first != second
    await asyncio.gather(own.give_back(first), own.give_back(second))
    assert {await own.take(), await own.take()} == {first, second}
    await asyncio.gather(own.give_back(first), own.give_back(second))


@pytest.mark.direct
async def test_reading_leaves_the_fingerprint_as_it_is(database_url: str) -> None:
    connection = await connect(database_url)
    before = await fingerprint(connection)
    assert {"pg_class", "pg_proc", "pg_policy", "pg_trigger", "pg_statistic"} <= {name for name, *_ in before}
    await connection.fetch("SELECT * FROM memory.messages")
    assert await fingerprint(connection) == before
    await connection.close()


async def test_database_whose_indexes_have_grown_is_dropped(own: Databases) -> None:
    """The planner would take another way through the next test's rows than through those of a new database."""
    url = await own.take()
    connection = await connect(url)
    try:
        await connection.execute(
            "INSERT INTO memory.agents (agent_id) SELECT 'agent ' || n FROM generate_series(1, 5000) n"
        )
    finally:
        await connection.close()
    assert not await own.give_back(url)


@pytest.mark.parametrize(("agents", "pages"), [(3, 1), (100, 0)])
async def test_tables_that_have_grown_are_as_new_and_small_ones_only_empty(
    own: Databases, agents: int, pages: int
) -> None:
    """What is planned for few rows is planned once for all tests, what is planned for many goes with them."""
    url = await own.take()
    fill = "INSERT INTO memory.agents (agent_id, settings) SELECT n, jsonb_build_object('x', repeat('x', 1500))"
    await administer(url, f"{fill} FROM generate_series(1, {agents}) n")
    assert await own.give_back(url)
    assert await own.take() == url
    connection = await connect(url)
    kept = "pg_relation_size('memory.agents') / 8192, reltuples, (SELECT count(*) FROM memory.agents)"
    found = await connection.fetchrow(f"SELECT {kept} FROM pg_class WHERE oid = 'memory.agents'::regclass")  # noqa: S608
    await connection.close()
    assert tuple(found) == (pages, -1, 0)
    assert await own.give_back(url)
