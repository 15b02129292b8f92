"""What the library didn't make, in a schema `memory` of the host or beside ours: never touched, and said by name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from memory_sql.db import migrate
from memory_sql.db.contents import contents
from memory_sql.db.roles import Roles, drop, make
from memory_sql.errors import SchemaError
from memory_sql.memory import Memory
from tests.commands import memory_sql
from tests.fakes import Scripted
from tests.migrations.databases import execute, fetch, psql

pytestmark = pytest.mark.open
ROLES = Roles.of("foreign_owner", "foreign_app", "foreign_analyst")
NOTES = ("CREATE SCHEMA memory", "CREATE TABLE memory.notes (id int)", "INSERT INTO memory.notes VALUES (1)")
AGENTS = (  # with names of ours, and kept by the host's own Alembic
    "CREATE SCHEMA memory",
    "CREATE TABLE memory.agents (id int)",
    "INSERT INTO memory.agents VALUES (1)",
    "CREATE TABLE memory.alembic_version (version_num varchar(32) CONSTRAINT alembic_version_pkc PRIMARY KEY)",
    "INSERT INTO memory.alembic_version VALUES ('0002harbour')",
)
COMMANDS: dict[str, Callable[[str], object]] = {
    "upgrade": migrate.upgrade,
    "reset": migrate.reset,
    "downgrade": lambda url: migrate.downgrade(url, "base", drop=True),
    "contents": lambda url: asyncio.run(contents(url)),
    "roles": lambda url: asyncio.run(make(url, ROLES)),
    "roles --drop": lambda url: asyncio.run(drop(url, ROLES)),
}
THINGS = {
    "table notes": "CREATE TABLE memory.notes (id int)",
    "view notes": "CREATE VIEW memory.notes AS SELECT 1",
    "view totals": "CREATE MATERIALIZED VIEW memory.totals AS SELECT 1",
    "sequence numbers": "CREATE SEQUENCE memory.numbers",
    "type mood": "CREATE TYPE memory.mood AS ENUM ('good')",
    "function mood": "CREATE FUNCTION memory.mood() RETURNS int LANGUAGE sql AS 'SELECT 1'",
}


@pytest.mark.parametrize("act", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize(("made", "name"), [(NOTES, "notes"), (AGENTS, "agents")], ids=["notes", "agents"])
async def test_schema_of_the_host_is_left_as_it_is(
    empty_database: str, act: Callable[[str], object], made: tuple[str, ...], name: str
) -> None:
    await execute(empty_database, *made)
    owner = "SELECT tablename, tableowner FROM pg_tables WHERE schemaname = 'memory' ORDER BY 1"
    before = await fetch(empty_database, owner)
    with pytest.raises(SchemaError, match=rf"isn't memory_sql's.*ALTER SCHEMA memory RENAME.*it holds table {name}"):
        await asyncio.to_thread(act, empty_database)
    assert await fetch(empty_database, owner) == before
    rows = {"notes": "SELECT id FROM memory.notes", "agents": "SELECT id FROM memory.agents"}
    assert await fetch(empty_database, rows[name]) == [(1,)]


async def test_memory_opened_on_it_doesnt_advise_to_reset_it(empty_database: str) -> None:
    await execute(empty_database, *AGENTS)
    with pytest.raises(SchemaError, match="isn't memory_sql's") as refused:
        await Memory(empty_database, Scripted()).open()
    assert "reset" not in str(refused.value)


@pytest.mark.slow
async def test_schema_that_is_empty_is_used(empty_database: str) -> None:
    await execute(empty_database, "CREATE SCHEMA memory")
    await asyncio.to_thread(migrate.upgrade, empty_database)
    async with Memory(empty_database, Scripted()):
        pass


@pytest.mark.parametrize(("name", "statement"), THINGS.items(), ids=THINGS)
def test_what_lies_beside_ours_is_named_and_kept(database_url: str, name: str, statement: str) -> None:
    psql(database_url, f"{statement};")
    said = memory_sql("db", "reset", "--yes", "--url", database_url, code=1).err
    assert f"({name})" in said
    assert "SET SCHEMA" in said
    assert memory_sql("db", "reset", "--url", database_url, code=1).err == said  # before it asks
    assert memory_sql("db", "roles", "--url", database_url, code=1).err == said
    memory_sql("db", "upgrade", "--url", database_url)  # touches nothing of it
    assert memory_sql("db", "reset", "--yes", "--url", database_url, code=1).err == said


@pytest.mark.slow
async def test_nothing_of_ours_is_taken_for_somebody_elses(database_url: str) -> None:
    await asyncio.to_thread(migrate.reset, database_url)
    await execute(database_url, "COMMENT ON SCHEMA memory IS NULL")
    await asyncio.to_thread(migrate.reset, database_url)
