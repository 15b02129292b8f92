"""Upgrade and downgrade, on databases with contents."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from subprocess import CompletedProcess

import pytest
from alembic.script import Script, ScriptDirectory

from memory_sql.config import Settings
from memory_sql.db import migrate
from memory_sql.db.engine import connect_once
from memory_sql.db.recorded import REVISION
from memory_sql.errors import DatabaseError, HeldError, InputError
from memory_sql.memory import Memory
from tests.factories import conversation
from tests.fakes import Scripted, extracted
from tests.migrations.databases import TABLES, downgrade, dump, execute, fetch, run, schema_of, upgrade

pytestmark = pytest.mark.open
HISTORY = list(ScriptDirectory.from_config(migrate.alembic_config()).walk_revisions())[::-1]
OURS = """
SELECT relname FROM pg_class WHERE relnamespace = 'memory'::regnamespace
UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'memory'::regnamespace
UNION ALL SELECT tgname FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT typname FROM pg_type WHERE typnamespace = 'memory'::regnamespace AND typelem = 0 AND typrelid = 0
ORDER BY 1
"""


async def fill(url: str) -> None:
    """Gives every table a row."""
    llm = Scripted(extracted(("Mia likes tea.", "individual")), "Tea.")
    async with Memory(url, llm, Settings(llm="offline", episodes=True)) as memory:
        await memory.add(conversation(4), agent_id="ada", user_id="mia", conversation_id="s", group_ids=["harbor"])
        formed = await memory.conversations.form(agent_id="ada", conversation_id="s")
        await memory.scopes.consolidate(agent_id="ada", scope_id=formed.observations[0].scope.id)
        boat = await memory.observe("The boat needs paint.", agent_id="ada", group_id="harbor")
        await memory.observe("The boat needs tar.", agent_id="ada", group_id="harbor")
        await memory.prompts.set(boat.scope.id, "extraction", "Boats.", agent_id="ada")
    await execute(
        url,
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status) "
        "SELECT agent_key, scope_id, seq, 'archived' FROM memory.observations",
        "INSERT INTO memory.lineage (agent_key, scope_id, seq, source_scope_id, source_seq) "
        "SELECT wide.agent_key, wide.scope_id, wide.seq, o.scope_id, o.seq FROM memory.observations o "
        "JOIN memory.observations wide ON wide.agent_key = o.agent_key AND wide.scope_id > o.scope_id",
        "INSERT INTO memory.judged (agent_key, source_scope_id, source_seq, target_scope_id, outcome, reason) "
        "SELECT agent_key, source_scope_id, source_seq, scope_id, 'refused', 'personal' FROM memory.lineage",
        "INSERT INTO memory.events (agent_key, kind) SELECT agent_key, 'status' FROM memory.agents",
        "INSERT INTO memory.holds (agent_key, kind, target, released_at) "
        "SELECT agent_key, 'user', 'mia', now() FROM memory.agents",
        "INSERT INTO memory.user_aliases (agent_key, user_id, into_user_id) SELECT agent_key, 'm', 'mia' FROM memory.agents",
        "INSERT INTO memory.departures (agent_key, user_hash, scope_id) SELECT agent_key, 'x', scope_id FROM memory.scopes",
        "INSERT INTO memory.prices VALUES ('m', '2026-01-01', 'EUR', 1, 2)",
        "INSERT INTO memory.dialects VALUES ('http://localhost', 'm', 'chat', 'text')",
        "INSERT INTO memory.api_keys (secret_hash, prefix, name, rights) VALUES (sha256('k'), 'ms_k', 'chat', '{read}')",
        "INSERT INTO memory.shards (shard, number, version) VALUES ('a', 0, 1)",
        "INSERT INTO memory.agent_shards (agent_id, shard, version) VALUES ('ada', 'a', 1)",
        "INSERT INTO memory.moved_agents (agent_id, moved_key, shard) VALUES ('zoe', 999, 'a')",
        "INSERT INTO memory.imports (source, state, key_hash) VALUES ('dump', 'running', 'k')",
        "INSERT INTO memory.import_rejects SELECT import_id, 1, 'memory_user', NULL, 'f', 1, 0, 'rejected', 'empty' "
        "FROM memory.imports",
        "INSERT INTO memory.imported SELECT agent_key, scope_id, 'memory_user:1', 1, NULL, 'a', 'b', 'c' FROM memory.scopes",
        "INSERT INTO memory.imported_messages SELECT agent_key, conversation_id, number, 1, 'a', 'b', 'c' "
        "FROM memory.messages",
        "INSERT INTO memory.forgotten_refs SELECT agent_key, 'c' FROM memory.agents",
        "INSERT INTO memory.forgotten_ids SELECT agent_key, 'user', 'c' FROM memory.agents",
        "INSERT INTO memory.observation_vectors SELECT agent_key, scope_id, seq, 'm:1', '1' FROM memory.observations",
        "INSERT INTO memory.observation_retrievals SELECT agent_key, scope_id, seq, '2026-03-02', 'search', 1"
        " FROM memory.observations",
        "INSERT INTO memory.observation_feedback SELECT agent_key, scope_id, seq, '2026-03-02', 1, 1"
        " FROM memory.observations",
        "INSERT INTO memory.rechecked (agent_key, scope_id, seq, other_seq, outcome, said_at)"
        " SELECT agent_key, scope_id, seq - 1, seq, 'same', now() FROM memory.observations WHERE seq > 1",
        "INSERT INTO memory.links (agent_key, scope_id, seq, to_seq, kind, label)"
        " SELECT agent_key, scope_id, seq, seq - 1, 'entity', 'boat' FROM memory.observations WHERE seq > 1",
        "INSERT INTO memory.retrievals SELECT agent_key, '2026-03-02', 'search', 'asked', 1, 0, 0, 0 FROM memory.agents",
    )


async def counts(url: str) -> dict[str, int]:
    """The rows of each table of ours that there is."""
    tables = [name for (name,) in await fetch(url, TABLES)]
    query = " UNION ALL ".join(f"SELECT '{name}', count(*) FROM memory.{name}" for name in tables)  # noqa: S608
    return dict(map(tuple, await fetch(url, query)))


@pytest.fixture
async def filled(database_url: str) -> str:
    await fill(database_url)
    assert all((await counts(database_url)).values())
    return database_url


@pytest.mark.slow
async def test_filled_database_goes_down_and_up_again(filled: str) -> None:
    before = schema_of(filled)
    await downgrade(filled)
    await upgrade(filled)
    assert schema_of(filled) == before
    assert {name for name, count in (await counts(filled)).items() if count} == {"installation"}
    await fill(filled)  # and works like a new one
    assert all((await counts(filled)).values())


@pytest.mark.slow
async def test_downgrade_leaves_the_schema_and_its_version_table_alone(filled: str) -> None:
    await downgrade(filled)
    assert [name for (name,) in await fetch(filled, OURS)] == ["alembic_version", "alembic_version_pkc"]
    assert await fetch(filled, "SELECT version_num FROM memory.alembic_version") == []


HOLD = "UPDATE memory.holds SET released_at = NULL"


async def test_what_a_text_was_shown_is_kept_on_the_way_down(filled: str) -> None:
    """Older code would leave words of it in a text when it is forgotten; where no text was shown any, nothing is lost."""
    mark = "UPDATE memory.consolidations SET passed_seqs = '{1}'"
    await execute(filled, "ALTER TABLE memory.consolidations DISABLE TRIGGER USER", mark)
    refused = await asyncio.to_thread(plain_alembic, "downgrade", "a7c39e15d042", url=filled)
    assert refused.returncode != 0
    assert "shown what waits" in refused.stderr
    await execute(filled, "UPDATE memory.consolidations SET passed_seqs = '{}'")
    gone = await asyncio.to_thread(plain_alembic, "downgrade", "a7c39e15d042", url=filled)
    assert gone.returncode == 0, gone.stderr
    assert "passed_seqs" not in schema_of(filled)


@pytest.mark.slow
async def test_nothing_is_dropped_unasked(filled: str) -> None:
    """Neither by a call nor by plain Alembic, which says how it is asked for."""
    before = await snapshot(filled)
    with pytest.raises(InputError, match=r"nothing was changed.*4 messages"):
        await downgrade(filled, drop=False)
    for revision in (f"-{len(HISTORY)}", "base", "memory_sql@base"):
        refused = await asyncio.to_thread(plain_alembic, "downgrade", revision, url=filled)
        assert refused.returncode != 0
        assert "this would delete everything that is remembered" in refused.stderr
        assert "alembic -x memory_sql=drop" in refused.stderr
    assert await snapshot(filled) == before
    done = await asyncio.to_thread(plain_alembic, "-x", "memory_sql=drop", "downgrade", "base", url=filled)
    assert done.returncode == 0, done.stderr
    assert await fetch(filled, TABLES) == []


@pytest.mark.slow
async def test_nothing_is_dropped_while_a_hold_is_open(filled: str) -> None:
    await execute(filled, HOLD)
    before = await snapshot(filled)
    with pytest.raises(HeldError):
        await downgrade(filled)
    with pytest.raises(HeldError):
        await asyncio.to_thread(migrate.reset, filled)
    refused = await asyncio.to_thread(plain_alembic, "-x", "memory_sql=drop", "downgrade", "base", url=filled)
    assert "legal holds are open" in refused.stderr
    assert await snapshot(filled) == before


async def test_empty_database_goes_down_unasked(database_url: str) -> None:
    await downgrade(database_url, drop=False)
    assert await fetch(database_url, TABLES) == []


def plain_alembic(*arguments: str, url: str) -> CompletedProcess[str]:
    return run(sys.executable, "-m", "alembic", *arguments, environ={"MEMORY_SQL_URL": url}, check=False)


@pytest.mark.parametrize("script", HISTORY, ids=lambda script: script.revision)
@pytest.mark.slow
async def test_downgrade_is_the_inverse_of_its_upgrade(empty_database: str, script: Script) -> None:
    url, below = empty_database, script.down_revision or "base"
    assert isinstance(below, str)
    await upgrade(url, below)
    before = dump(url, "--schema-only")
    await upgrade(url, script.revision)
    after = dump(url, "--schema-only")
    await downgrade(url, below)
    assert dump(url, "--schema-only") == before
    await upgrade(url, script.revision)
    assert dump(url, "--schema-only") == after
    assert after != before


@pytest.fixture
async def host(empty_database: str) -> str:
    """A database in use: its own history, tables named like ours, and a search path that starts with its schema."""
    await execute(
        empty_database,
        "CREATE TABLE public.alembic_version (version_num varchar(32) PRIMARY KEY)",
        "INSERT INTO public.alembic_version VALUES ('0af1e5d9c2b7')",
        "CREATE SCHEMA app",
        "CREATE TABLE app.agents (agent_key int PRIMARY KEY, name text NOT NULL CHECK (name <> ''))",
        "INSERT INTO app.agents VALUES (7, 'Bond')",
        "CREATE VIEW app.v_observations AS SELECT name FROM app.agents",
        "CREATE FUNCTION public.refuse_change() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = app, public', current_database()); END $$",
    )
    return empty_database


@pytest.mark.slow
async def test_what_belongs_to_the_host_is_left_alone(host: str) -> None:
    theirs = dump(host, "--exclude-schema=memory")
    assert "Bond" in theirs
    assert "0af1e5d9c2b7" in theirs
    await upgrade(host)
    assert dump(host, "--exclude-schema=memory") == theirs
    assert await fetch(host, "SELECT version_num FROM memory.alembic_version") == [(REVISION,)]
    await fill(host)
    await downgrade(host)
    assert dump(host, "--exclude-schema=memory") == theirs


@pytest.mark.slow
async def test_same_schema_whatever_the_host_has(host: str, database_url: str) -> None:
    await upgrade(host)
    assert schema_of(host) == schema_of(database_url)


@dataclass(frozen=True)
class Snapshot:
    schema: str
    rows: dict[str, int]
    revision: str


async def snapshot(url: str) -> Snapshot:
    revision = (await fetch(url, "SELECT version_num FROM memory.alembic_version"))[0][0]
    return Snapshot(schema_of(url), await counts(url), revision)


@pytest.mark.slow
async def test_downgrade_gives_up_on_a_lock_with_nothing_half_done(filled: str) -> None:
    before = await snapshot(filled)
    async with connect_once(filled) as reader:
        await reader.exec_driver_sql("SELECT FROM memory.agents")  # the table that is dropped last
        with pytest.raises(DatabaseError, match="55P03"):
            async with asyncio.timeout(30):
                await downgrade(filled)
    assert await snapshot(filled) == before
