"""One schema: tables, functions and views as in the code, and as each way of running the migrations builds them."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from alembic import command

from memory_sql.db import ddl, migrate
from memory_sql.db.engine import connect_once
from memory_sql.db.models import Base
from memory_sql.db.recorded import REVISION
from tests.migrations.databases import alembic, dump, execute, fetch, psql, run, schema_of

SCHEMA = (
    "CREATE SCHEMA memory",
    "COMMENT ON SCHEMA memory IS 'Long-term memory of AI agents (memory_sql).'",
)
UPGRADE = (sys.executable, "-c", "import sys; from memory_sql.db import migrate; migrate.upgrade(sys.argv[1])")
PROCESSES = 6
OWN_KEY = ("--exclude-table-data=memory.installation",)  # each database has another
WAITING = """
SELECT l.pid FROM pg_locks l JOIN pg_database d ON d.oid = l.database
WHERE l.locktype = 'advisory' AND NOT l.granted AND d.datname = current_database()
"""


async def build_from_the_code(url: str) -> None:
    await execute(url, *SCHEMA)
    async with connect_once(url) as connection:
        driver = (await connection.get_raw_connection()).driver_connection
        assert driver is not None
        for name in ddl.BEFORE_TABLES:
            await driver.execute(ddl.script(name))
        await connection.run_sync(Base.metadata.create_all)
        for name in ddl.AFTER_TABLES:
            await driver.execute(ddl.script(name))


@pytest.mark.slow
@pytest.mark.open
async def test_the_code_and_the_migrations_describe_the_same_schema(empty_database: str, database_url: str) -> None:
    await build_from_the_code(empty_database)
    await execute(database_url, "DROP FUNCTION memory.schema_fingerprint()")  # which only a migration makes
    assert schema_of(empty_database) == schema_of(database_url)


@pytest.mark.slow
@pytest.mark.open
async def test_alembic_in_the_checkout_builds_the_same_database(empty_database: str, database_url: str) -> None:
    alembic("upgrade", "head", url=empty_database)
    assert dump(empty_database, *OWN_KEY) == dump(database_url, *OWN_KEY)


@pytest.mark.slow
@pytest.mark.open
async def test_printed_sql_builds_the_same_database(empty_database: str, database_url: str) -> None:
    psql(empty_database, alembic("upgrade", "head", "--sql"))
    assert dump(empty_database, *OWN_KEY) == dump(database_url, *OWN_KEY)


# The server prints the expression of the search columns in its own words; pg_dump's comparison sees through that.
@pytest.mark.filterwarnings(
    "ignore:Computed default on (observations|messages).(search|cues) cannot be modified:UserWarning"
)
@pytest.mark.open
async def test_alembic_check_finds_nothing_to_do(database_url: str) -> None:
    await execute(database_url, "CREATE SCHEMA app", "CREATE TABLE app.orders (id int)", "CREATE TABLE orders (id int)")
    await asyncio.to_thread(command.check, migrate.alembic_config(database_url))


@pytest.mark.slow
@pytest.mark.open
async def test_processes_that_upgrade_at_once_take_turns(empty_database: str, database_url: str) -> None:
    start = partial(asyncio.get_running_loop().run_in_executor, ThreadPoolExecutor(PROCESSES))
    async with connect_once(empty_database) as gate:
        await gate.exec_driver_sql(f"SELECT pg_advisory_xact_lock({migrate.LOCK_KEY})")
        upgrades = [start(partial(run, *UPGRADE, empty_database)) for _ in range(PROCESSES)]
        async with asyncio.timeout(60):
            while len(await fetch(empty_database, WAITING)) < PROCESSES:  # noqa: ASYNC110 (no event tells us)
                await asyncio.sleep(0.05)
    await asyncio.gather(*upgrades)
    assert await fetch(empty_database, "SELECT version_num FROM memory.alembic_version") == [(REVISION,)]
    assert schema_of(empty_database) == schema_of(database_url)
