"""What lies beside the main path, in installations whose schema has another name: imports, hosts, doors, exports."""

from __future__ import annotations

import asyncio
import csv
import io
import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from mcp import Client
from sqlalchemy import Connection, MetaData, select
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.pool import NullPool

from memory_sql import models
from memory_sql.config import Settings
from memory_sql.db import migrate, roles
from memory_sql.db.engine import connect_once
from memory_sql.db.naming import quoted
from memory_sql.db.recorded import REVISION
from memory_sql.db.repositories.imports import ImportRepository
from memory_sql.db.roles import Roles
from memory_sql.db.urls import asyncpg_url
from memory_sql.db.vacuum import vacuum
from memory_sql.domain.keys import RIGHTS
from memory_sql.domain.selection import Selection
from memory_sql.errors import RestoredError, SchemaError
from memory_sql.mcp import server
from memory_sql.memory import Memory
from memory_sql.server import create_app
from memory_sql.worker import Worker
from tests.asgi import lived
from tests.legacy.formats import dump
from tests.legacy.generator import Legacy
from tests.mem0_store import WRITTEN, write
from tests.recycling import administer, named
from tests.sizes import few_in_ci

pytestmark = pytest.mark.slow  # each makes one schema or two

ODD = "Ä \"b' c.d$$e%f:g $1 $x$ \\h {i} %(j)s"
OTHER = "tenant 2"
ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
TALK: dict[str, Any] = {**MIA, "conversation_id": "c"}
CANARY = "My dog is called Quetzal."
OTHERS = "My dog is called Xylander."
KEY = b"k" * 32
# Each has something that a driver, a compiler or Postgres reads otherwise.
AWKWARD = [
    ODD,
    "ä" * 31 + "x",  # 63 bytes, the longest
    "back\\slash \\x41 \\' \\\\",
    "$$ $q$ $_q$",
    "%s %(version_num)s %% %",
    "{0} {name} [POSTCOMPILE_x] __[x]",
    "a -- b /* c",
    "the memory.messages of SCHEMA memory",
    ":x ::text ; DROP",
]
ENV = """
from alembic import context
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool
from memory_sql.db.migrate import host_include_name, prepare

engine = create_engine(context.config.attributes["host"], poolclass=NullPool)
with engine.connect() as connection:
    context.configure(connection=connection, include_schemas=True, include_name=host_include_name)
    with context.begin_transaction():
        prepare()
        context.run_migrations()

"""
OWN = """
from alembic import op

revision, down_revision, branch_labels, depends_on = "0001harbour", None, ("harbour",), None


def upgrade() -> None:
    op.execute("CREATE TABLE public.berths (name text)")
    op.execute("COMMENT ON TABLE public.berths IS 'memory.messages'")


def downgrade() -> None:
    op.execute("DROP TABLE public.berths")
"""


def of(schema: str, **more: Any) -> Settings:
    return Settings(llm="offline", schema=schema, **more)


def plain(url: str, driver: str = "postgresql") -> str:
    return asyncpg_url(url).set(drivername=driver).render_as_string(hide_password=False)


@pytest.fixture(scope="module")
async def made(server_url: str) -> AsyncIterator[str]:
    """The name of a database with two installations."""
    name = f"memory_sql_elsewhere_{os.getpid()}"
    await administer(server_url, f"CREATE DATABASE {name}")
    for schema in (ODD, OTHER):
        await asyncio.to_thread(migrate.upgrade, named(server_url, name), schema=schema)
    yield name
    await administer(server_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def url(server_url: str, made: str) -> AsyncIterator[str]:
    name = f"{made}_copy"
    await administer(server_url, f"CREATE DATABASE {name} TEMPLATE {made}")
    yield named(server_url, name)
    await administer(server_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def both(url: str) -> AsyncIterator[tuple[Memory, Memory]]:
    async with Memory(url, settings=of(ODD)) as one, Memory(url, settings=of(OTHER)) as two:
        yield one, two
        assert [await each.admin.verify(hashes=True) for each in (one, two)] == [[], []]


async def said(memory: Memory) -> list[str]:
    return [one.content for one in await memory.observations.list(**MIA)]


async def fetch(url: str, query: str, schema: str = ODD) -> list[tuple[Any, ...]]:
    """The schema stands as {}, in quotes."""
    connection = await asyncpg.connect(plain(url))
    try:
        return [tuple(row) for row in await connection.fetch(query.replace("{}", quoted(schema)))]
    finally:
        await connection.close()


# Names


@pytest.mark.parametrize("schema", few_in_ci(AWKWARD, AWKWARD[:3]))
async def test_any_name_is_made_used_checked_and_dropped(empty_database: str, schema: str) -> None:
    await asyncio.to_thread(migrate.upgrade, empty_database, schema=schema)
    async with Memory(empty_database, settings=of(schema)) as memory:
        await memory.add([{"role": "user", "content": CANARY}], **TALK, wait=True)
        assert CANARY in str(await memory.context(message="What is my dog called?", **MIA))
        await memory.forget(Selection(user_id="mia"), **ADA)
        assert await memory.admin.verify(hashes=True) == []
    await vacuum(empty_database, schema)
    assert await asyncio.to_thread(migrate.current, empty_database, schema=schema) == REVISION
    await asyncio.to_thread(migrate.downgrade, empty_database, "base", drop=True, schema=schema)
    await asyncio.to_thread(migrate.reset, empty_database, schema=schema)
    assert await asyncio.to_thread(migrate.check, empty_database, schema=schema) == REVISION


# Imports


async def test_an_import_goes_where_the_schema_is_and_back(
    url: str, both: tuple[Memory, Memory], tmp_path: Path
) -> None:
    dump(tmp_path, Legacy(agents=1).collections())
    one, two = both
    await two.observe(OTHERS, **MIA)
    report = await one.imports.mongo(dump=tmp_path, key=KEY)
    assert report.run is not None
    assert (report.unaccounted, (await one.imports.mongo(dump=tmp_path, key=KEY)).unaccounted) == ((), ())
    assert len(await one.admin.agents()) > 0
    assert await one.admin.verify(hashes=True) == []
    assert [agent.id for agent in await two.admin.agents()] == ["ada"]
    await one.imports.rollback(report.run)
    assert await fetch(url, "SELECT count(*) FROM {}.observations") == [(0,)]
    assert await said(two) == [OTHERS]


async def test_imports_of_two_installations_do_not_wait_for_each_other(both: tuple[Memory, Memory]) -> None:
    one, two = both
    async with one.database.transaction() as first, two.database.transaction() as second, asyncio.timeout(20):
        await ImportRepository(first).in_turn()
        await ImportRepository(second).in_turn()
        await ImportRepository(first).open(1, keeps=False)
        await ImportRepository(second).open(1, keeps=False)


async def test_mem0_is_imported_from_the_same_database(url: str, both: tuple[Memory, Memory]) -> None:
    one, two = both
    await write(url, WRITTEN)
    report = await one.imports.mem0(mem0_url=url, key=KEY, agent_id="assistant")
    assert report.collections["mem0"]["migrated"] == 8
    assert "Alice moved to Lisbon." in str(await one.search("Lisbon", agent_id="assistant", user_id="alice"))
    assert await two.admin.agents() == []


# Hosts


def host_alembic(url: str, folder: Path, driver: str) -> Config:
    """A host's history with ours as a branch, on a driver of its choice."""
    (folder / "versions").mkdir(exist_ok=True)
    (folder / "env.py").write_text(ENV)
    (folder / "versions" / "0001.py").write_text(OWN)
    config = Config()
    config.set_main_option("script_location", str(folder))
    config.set_main_option("path_separator", "newline")
    config.set_main_option("version_locations", f"{folder / 'versions'}\n{migrate.scripts() / 'versions'}")
    config.attributes["host"] = plain(url, f"postgresql+{driver}")
    return config


@pytest.mark.parametrize("driver", few_in_ci(["psycopg", "psycopg2"], ["psycopg2"]))
def test_a_hosts_alembic_keeps_the_schema_as_a_branch(
    empty_database: str, tmp_path: Path, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SQL_SCHEMA", ODD)
    config = host_alembic(empty_database, tmp_path, driver)
    command.upgrade(config, "heads")
    assert asyncio.run(fetch(empty_database, "SELECT obj_description('public.berths'::regclass)")) == [
        ("memory.messages",)
    ]
    assert migrate.check(empty_database, schema=ODD) == REVISION

    async def live() -> None:
        async with Memory(empty_database, settings=of(ODD)) as memory:
            await memory.add([{"role": "user", "content": CANARY}], **TALK, wait=True)
            assert len(await said(memory)) == 1
            assert await memory.admin.verify(hashes=True) == []

    asyncio.run(live())
    assert asyncio.run(fetch(empty_database, "SELECT count(*) FROM pg_namespace WHERE nspname = 'memory'")) == [(0,)]
    with pytest.raises(Exception, match="this would delete everything that is remembered"):
        command.downgrade(config, "memory_sql@base")
    config.attributes["memory_sql"] = "drop"
    command.downgrade(config, "memory_sql@base")
    with pytest.raises(SchemaError):
        migrate.check(empty_database, schema=ODD)
    command.upgrade(config, "heads")
    assert migrate.check(empty_database, schema=ODD) == REVISION


async def test_autogenerate_of_a_host_leaves_the_schema_alone(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def compare(connection: Connection, /, **filters: Any) -> set[str]:
        context = MigrationContext.configure(connection, opts={"include_schemas": True, **filters})
        steps: list[Any] = list(compare_metadata(context, MetaData()))
        return {str(step[1].schema) for step in steps if step[0] == "remove_table"}

    monkeypatch.setenv("MEMORY_SQL_SCHEMA", ODD)
    async with connect_once(url) as connection:
        assert await connection.run_sync(compare) == {ODD, OTHER}
        for named_so in ({"include_name": migrate.host_include_name}, {"include_object": migrate.host_include_object}):
            assert await connection.run_sync(partial(compare, **named_so)) == {OTHER}


async def test_mapped_tables_are_read_by_the_name_of_the_schema(url: str, both: tuple[Memory, Memory]) -> None:
    one, two = both
    await one.observe(CANARY, **MIA)
    await two.observe(OTHERS, **MIA)
    engine = create_async_engine(asyncpg_url(url), poolclass=NullPool)
    for schema, expected in ((ODD, CANARY), (OTHER, OTHERS)):
        translated = engine.execution_options(schema_translate_map={"memory": schema})
        async with AsyncSession(translated) as session:
            assert (await session.scalars(select(models.ObservationRow.content))).all() == [expected]
            assert await said_in(one, session) == [CANARY]  # whatever the host's own map says
    await engine.dispose()


async def said_in(memory: Memory, session: AsyncSession) -> list[str]:
    return [one.content for one in await memory.observations.list(**MIA, session=session)]


async def test_work_in_a_hosts_transaction_goes_with_it(url: str, both: tuple[Memory, Memory]) -> None:
    one, two = both
    engine = create_async_engine(asyncpg_url(url), poolclass=NullPool)
    async with AsyncSession(engine) as session:
        for memory, what in ((one, CANARY), (two, OTHERS)):
            await memory.add([{"role": "user", "content": what}], **TALK, session=session)
            await memory.observe(what, **MIA, session=session)
            await memory.groups.create("club", **ADA, session=session)
            await memory.groups.add_member("club", **MIA, session=session)
            assert what in str(await memory.context(message="dog", **MIA, session=session))
            assert (await memory.search("dog", **MIA, session=session)).results
            receipt = await memory.forget(Selection(user_id="mia"), **ADA, session=session)
            assert receipt.found
        await session.rollback()
    await engine.dispose()
    assert [await said(memory) for memory in both] == [[], []]


# Doors


async def test_two_are_served_over_http_by_one_process(both: tuple[Memory, Memory]) -> None:
    clients = []
    for memory in both:
        key = await memory.keys.create("chat", rights=RIGHTS, agents=["ada"])
        clients.append((create_app(memory, mcp=False), key.secret))
    (first, one_secret), (second, two_secret) = clients
    async with lived(first) as one, lived(second) as two:
        for client, secret, what in ((one, one_secret, CANARY), (two, two_secret, OTHERS)):
            known = client.with_key(secret)
            body = {"text": what, "user_id": "mia"}
            assert (await known("POST", "/v1/agents/ada/observations", body)).status == 201
            found = await known("GET", "/v1/agents/ada/observations", query={"user_id": "mia"})
            assert [item["content"] for item in found.json["items"]] == [what]
            assert (await known("GET", "/v1/agents/ada/work/backlog")).status == 200
        assert (await one.with_key(two_secret)("GET", "/v1/agents/ada/observations")).status == 401


async def test_two_are_served_over_mcp_by_one_process(both: tuple[Memory, Memory]) -> None:
    for memory, what in zip(both, (CANARY, OTHERS), strict=True):
        async with Client(server(memory, **MIA)) as client:
            assert not (await client.call_tool("remember", {"text": what})).is_error
            assert what in str((await client.call_tool("recall", {"query": "dog"})).content)
            assert what in str((await client.read_resource("memory://context")).contents)
    assert [await said(memory) for memory in both] == [[CANARY], [OTHERS]]


# Operations


async def test_reads_of_a_replica_go_to_the_same_schema(url: str, both: tuple[Memory, Memory]) -> None:
    await both[0].observe(CANARY, **MIA)
    async with Memory(url, settings=of(ODD, read_url=url)) as memory:
        assert CANARY in str(await memory.context(message="dog", **MIA))
        assert len((await memory.search("dog", **MIA)).results) == 1


async def test_a_journal_of_each_or_of_both_tells_them_apart(url: str, tmp_path: Path) -> None:
    path = tmp_path / "forgotten.jsonl"
    settings = [of(schema, forget_journal=path) for schema in (ODD, OTHER)]
    for each in settings:
        async with Memory(url, settings=each) as memory:
            await memory.observe(CANARY, **MIA)
    async with Memory(url, settings=settings[0]) as one:
        await one.forget(Selection(user_id="mia"), **ADA)
        assert len(path.read_text().splitlines()) > 0
    async with Memory(url, settings=settings[1]) as two:  # another database, by its id
        assert await said(two) == [CANARY]
        assert await two.admin.restore_check(path) == []
        assert await said(two) == [CANARY]


async def test_a_restored_backup_of_one_is_not_opened(server_url: str, url: str, tmp_path: Path) -> None:
    settings = of(ODD, forget_journal=tmp_path / "forgotten.jsonl")
    name = f"{asyncpg_url(url).database}_backup"
    async with Memory(url, settings=settings) as memory:
        await memory.observe(CANARY, **MIA)
    await administer(server_url, f"CREATE DATABASE {name} TEMPLATE {asyncpg_url(url).database}")
    async with Memory(url, settings=settings) as memory:
        await memory.forget(Selection(user_id="mia"), **ADA)
    try:
        with pytest.raises(RestoredError):
            async with Memory(named(server_url, name), settings=settings):
                pass
        async with Memory(named(server_url, name), settings=of(ODD)) as restored:
            status = await restored.admin.journal_status(tmp_path / "forgotten.jsonl")
            (incarnation,) = status.copied_from
            await restored.admin.restore_check(tmp_path / "forgotten.jsonl", incarnation=incarnation)
            assert await said(restored) == []
    finally:
        await administer(server_url, f"DROP DATABASE {name} WITH (FORCE)")


async def test_workers_of_both_work_at_once(both: tuple[Memory, Memory]) -> None:
    for memory, what in zip(both, (CANARY, OTHERS), strict=True):
        await memory.observe("Mia likes tea.", **MIA)
        for n in range(5):
            turn = [{"role": "user", "content": what}]
            await memory.add(turn, **{**TALK, "conversation_id": f"c{n}"})
    workers = [Worker(memory) for memory in both for _ in range(2)]
    await asyncio.gather(*(worker.run_once() for worker in workers))
    await asyncio.gather(*(memory.work.maintain() for memory in both))
    one, two = [str(await said(memory)) for memory in both]
    assert ("Quetzal" in one, "Xylander" in one, "Quetzal" in two, "Xylander" in two) == (True, False, False, True)


async def test_roles_of_one_read_nothing_of_the_other(server_url: str, url: str, both: tuple[Memory, Memory]) -> None:
    pid = os.getpid()
    sets = [Roles.of(*(f'{who} % "{n}" \' {pid}' for who in ("own", "app", "ana"))) for n in (1, 2)]
    login = f"analyst_of_one_{pid}"
    await both[0].observe(CANARY, **MIA)
    try:
        for schema, each in zip((ODD, OTHER), sets, strict=True):
            assert await roles.make(url, each, schema)
        await administer(url, f"CREATE ROLE {login} LOGIN PASSWORD 'x' IN ROLE {quoted(sets[0].content)}")
        theirs = asyncpg_url(url).set(username=login, password="x").render_as_string(hide_password=False)
        assert await fetch(theirs, "SELECT count(*) FROM {}.v_observations") == [(1,)]
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await fetch(theirs, "SELECT count(*) FROM {}.v_observations", OTHER)
    finally:
        for schema, each in zip((ODD, OTHER), sets, strict=True):
            await roles.drop(url, each, schema)
        await administer(url, f"DROP ROLE IF EXISTS {login}")


async def test_exports_are_those_of_the_schema(both: tuple[Memory, Memory]) -> None:
    for memory, what in zip(both, (CANARY, OTHERS), strict=True):
        await memory.observe(what, **MIA)
        to = io.BytesIO()
        assert await memory.admin.export("v_observations", to=to) == 1
        (row,) = csv.DictReader(io.StringIO(to.getvalue().decode()))
        assert row["agent_id"] == "ada"
        lines = [line async for line in memory.people.export(**MIA)]
        assert what in str(lines)
    assert (await both[0].admin.stats(**ADA)) is not None
