"""The next migration, whatever it will be: one that adds a column and changes a function, in a copy of the migrations."""

from __future__ import annotations

import asyncio
import io
import shlex
import shutil
from datetime import UTC
from pathlib import Path

import pytest
from alembic import command
from alembic.script import ScriptDirectory

from memory_sql.config import Settings
from memory_sql.db import ddl, migrate, recorded
from memory_sql.db.engine import connect_once
from memory_sql.db.recorded import REVISION
from memory_sql.domain.query import Weights
from memory_sql.errors import DatabaseError, SchemaError
from memory_sql.memory import Memory
from memory_sql.retrieval.query import parse
from tests.commands import memory_sql
from tests.factories import MONDAY
from tests.fakes import Scripted
from tests.migrations.databases import CHECKOUT, contents, downgrade, dump, execute, fetch, psql, schema_of, upgrade
from tests.migrations.test_round_trip import counts, fill, snapshot
from tests.unit.test_pages import blocks

pytestmark = pytest.mark.open
SECOND = "b0000000002b"
CHANGED = "sharing/person.sql"
COLUMN = "SELECT attnum FROM pg_attribute WHERE attrelid = 'memory.observations'::regclass AND attname = 'source_url'"
BODY = "SELECT prosrc LIKE '%now otherwise%' FROM pg_proc WHERE proname = 'person'"
UP = """op.add_column(
        "observations", sa.Column("source_url", sa.Text(), comment="Where it was read."), schema="memory"
    )
    run(FOLDER / "sharing" / "person.sql")"""
DOWN = """run(FOLDER.with_name("2026-11-22-1600_first_schema") / "sharing" / "person.sql")
    op.drop_column("observations", "source_url", schema="memory")"""


@pytest.fixture(autouse=True)
def second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the second migration."""
    copied = tmp_path / "migrations"
    shutil.copytree(migrate.scripts(), copied)
    monkeypatch.setattr(migrate, "scripts", lambda: copied)
    made = command.revision(migrate.alembic_config(), "Say where it was read", rev_id=SECOND)
    assert not isinstance(made, list)
    assert made is not None
    path = Path(made.path)
    path.write_text(path.read_text().replace("    pass", f"    {UP}", 1).replace("    pass", f"    {DOWN}", 1))
    changed = path.with_suffix("") / CHANGED
    changed.parent.mkdir(parents=True)
    changed.write_text(ddl.script("sharing/person").replace("AS $$", "AS $$  -- now otherwise", 1))
    return path


@pytest.fixture
async def filled(database_url: str) -> str:
    await fill(database_url)
    return database_url


def test_new_migration_follows_the_newest_one_and_waits_for_no_lock(second: Path) -> None:
    history = list(ScriptDirectory.from_config(migrate.alembic_config()).walk_revisions())
    assert [script.revision for script in history[:2]] == [SECOND, REVISION]
    assert second.read_text().count("    op.execute(LOCK_TIMEOUT)\n") == 2
    assert migrate.head() == SECOND


async def test_filled_database_goes_up_and_down_without_losing_a_row(filled: str) -> None:
    before = await counts(filled)
    assert (await fetch(filled, COLUMN), await fetch(filled, BODY)) == ([], [(False,)])
    await upgrade(filled)
    assert len(await fetch(filled, COLUMN)) == 1
    assert await fetch(filled, BODY) == [(True,)]
    assert await fetch(filled, "SELECT DISTINCT source_url FROM memory.observations") == [(None,)]
    assert await counts(filled) == before
    await downgrade(filled, REVISION)
    assert (await fetch(filled, COLUMN), await fetch(filled, BODY)) == ([], [(False,)])
    assert await counts(filled) == before


@pytest.mark.slow
async def test_way_down_is_the_inverse_of_the_way_up(filled: str) -> None:
    before = dump(filled, "--schema-only")
    await upgrade(filled)
    after = dump(filled, "--schema-only")
    await downgrade(filled, "-1")
    assert dump(filled, "--schema-only") == before
    await upgrade(filled)
    assert dump(filled, "--schema-only") == after
    assert after != before


@pytest.mark.slow
async def test_both_go_down_to_nothing_and_up_again(filled: str, empty_database: str) -> None:
    await upgrade(filled)
    await downgrade(filled)
    assert await fetch(filled, "SELECT version_num FROM memory.alembic_version") == []
    await upgrade(filled)
    await upgrade(empty_database)
    assert schema_of(filled) == schema_of(empty_database)


@pytest.mark.slow
async def test_upgrade_gives_up_on_a_lock_with_nothing_half_done(filled: str) -> None:
    before = await snapshot(filled)
    async with connect_once(filled) as reader:
        await reader.exec_driver_sql("SELECT FROM memory.observations")
        with pytest.raises(DatabaseError, match="55P03"):
            await upgrade(filled)
    assert await snapshot(filled) == before
    await upgrade(filled)
    assert await counts(filled) == before.rows


@pytest.mark.slow
async def test_way_down_gives_up_on_a_lock_with_nothing_half_done(filled: str) -> None:
    await upgrade(filled)
    before = await snapshot(filled)
    async with connect_once(filled) as reader:
        await reader.exec_driver_sql("SELECT FROM memory.observations")
        with pytest.raises(DatabaseError, match="55P03"):
            await downgrade(filled, REVISION)
    assert await snapshot(filled) == before


@pytest.mark.slow
async def test_printed_sql_of_the_step_builds_the_same_database(filled: str, empty_database: str) -> None:
    printed, config = io.StringIO(), migrate.alembic_config()
    config.output_buffer = printed
    command.upgrade(config, f"{REVISION}:{SECOND}", sql=True)
    psql(filled, printed.getvalue())
    await upgrade(empty_database)
    assert schema_of(filled) == schema_of(empty_database)


@pytest.mark.slow
async def test_schema_of_a_newer_release_is_refused_by_its_revision(filled: str) -> None:
    await upgrade(filled)
    with pytest.raises(SchemaError, match=f"the schema is at {SECOND}, this release needs {REVISION}"):
        await Memory(filled, Scripted(), Settings(llm="offline")).open()


@pytest.mark.slow
async def test_newer_release_asks_for_its_upgrade_and_opens_after_it(
    filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "REVISION", SECOND)
    with pytest.raises(SchemaError, match="run `memory-sql db upgrade`"):
        await Memory(filled, Scripted(), Settings(llm="offline")).open()
    await upgrade(filled)
    async with Memory(filled, Scripted(), Settings(llm="offline")) as memory:
        assert len(await memory.scopes.list(agent_id="ada", user_id="mia")) == 2


@pytest.mark.slow
async def test_functions_return_a_column_that_was_added_without_being_touched(
    filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "REVISION", SECOND)
    await upgrade(filled)
    query = parse("tea", MONDAY, UTC).to_json(Weights()).replace("'", "''")
    found = f"memory.search('ada', 'mia', NULL, '{query}', 5, 5, NULL, now(), NULL, false, NULL, NULL)"
    await execute(filled, "UPDATE memory.observation_states SET status = 'active'")
    asked = f"SELECT (observation).source_url, (message).content FROM {found} LIMIT 1"  # noqa: S608
    assert await fetch(filled, asked) == [(None, None)]
    async with Memory(filled, Scripted(), Settings(llm="offline")) as memory:
        assert len((await memory.search("tea", agent_id="ada", user_id="mia")).results) == 1


def type_in(begins: str, url: str, *more: str) -> list[str]:
    """What the commands of a block of docs/upgrading.md print."""
    (script,) = [block.text for block in blocks("docs/upgrading.md") if block.text.startswith(begins)]
    commands = [shlex.split(line.replace("REVISION", REVISION))[1:] for line in script.splitlines()]
    own = {"downgrade": more}
    return [memory_sql(*words, *own.get(words[1], ()), "--url", url).out for words in commands]


@pytest.mark.slow
def test_restored_dump_is_upgraded_by_the_pages_commands_and_goes_back_with_all_it_holds(
    database_url: str, empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory_sql("add", CHECKOUT / "examples/team.jsonl", "--agent", "ada", "--url", database_url)
    before = asyncio.run(contents(database_url))
    psql(empty_database, dump(database_url))
    with monkeypatch.context() as newer:
        newer.setattr(recorded, "REVISION", SECOND)
        assert type_in("memory-sql db upgrade\nmemory", empty_database)[-1] == "everything holds\n"
        memory_sql("observe", "The boat needs paint.", "--agent", "ada", "--user", "mia", "--url", empty_database)
        memory_sql("db", "downgrade", REVISION, "--url", empty_database, code=1)
        assert type_in("memory-sql db downgrade", empty_database, "--yes")[-1] == f"{REVISION}\n"
    after = asyncio.run(contents(empty_database))
    assert {name for name in before if after[name] != before[name]} == {
        "observations",
        "evidence",
        "scopes",
        "installation",
    }
    assert memory_sql("admin", "verify", "--hashes", "--url", empty_database).out == "everything holds\n"
    found = memory_sql("context", "--agent", "ada", "--user", "mia", "--url", empty_database).out
    assert "The boat needs paint." in found


async def test_first_schema_of_another_state_is_not_upgraded_further(filled: str) -> None:
    await execute(filled, "DROP FUNCTION memory.schema_fingerprint()")
    with pytest.raises(SchemaError, match="unreleased version"):
        await upgrade(filled)
    assert await fetch(filled, COLUMN) == []
