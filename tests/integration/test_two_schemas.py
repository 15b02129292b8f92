"""Two installations in one database: one in the default schema, one in a schema with an odd name."""

from __future__ import annotations

import asyncio
import io
import itertools
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, redirect_stdout
from functools import partial
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest
from alembic import command
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.pool import NullPool

from memory_sql import sync
from memory_sql.config import Settings
from memory_sql.db import migrate
from memory_sql.db.ddl import VIEWS
from memory_sql.db.engine import connect_once
from memory_sql.db.naming import quoted
from memory_sql.db.notifications import listen
from memory_sql.db.recorded import REVISION
from memory_sql.db.roles import Roles, drop, make
from memory_sql.db.urls import asyncpg_url
from memory_sql.db.vacuum import vacuum
from memory_sql.domain.selection import Selection
from memory_sql.errors import SchemaError
from memory_sql.memory import Memory
from memory_sql.worker import Worker
from tests.commands import memory_sql
from tests.database import libpq
from tests.pooler import Pooler
from tests.recycling import administer, named
from tests.sizes import few_in_ci

pytestmark = pytest.mark.slow  # each makes one schema or two

NAMES = ["Ä \"b' c.d$$e%f:g $1 $x$", "select", "Tenant-1"]
ODD = NAMES[0]
_numbers = itertools.count(1)
MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
TALK: dict[str, Any] = {**MIA, "conversation_id": "c"}
ROWS = 'SELECT t::text FROM {}."{}" t ORDER BY 1'
CANARY = "My dog is called Quetzal."
OTHERS = "My dog is called Xylander."


def plain(url: str) -> str:
    return asyncpg_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def of(name: str) -> Settings:
    return Settings(llm="offline", schema=name)


@pytest.fixture(params=few_in_ci(NAMES, [ODD]))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def url(request: pytest.FixtureRequest, server_url: str) -> AsyncIterator[str]:
    """Of a new database, which is empty but for tests of both."""
    name = f"memory_sql_of_two_{os.getpid()}_{next(_numbers)}"
    made = request.getfixturevalue("both_made") if "both" in request.fixturenames else "template1"
    await administer(server_url, f"CREATE DATABASE {name} TEMPLATE {made}")
    yield named(server_url, name)
    await administer(server_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module")
def both_made(server_url: str) -> Iterator[str]:
    """The name of a database with both, to be copied: making them takes longer than most of these tests."""
    name = f"memory_sql_both_{os.getpid()}"
    asyncio.run(administer(server_url, f"CREATE DATABASE {name}"))
    for schema in ("memory", ODD):
        migrate.upgrade(named(server_url, name), schema=schema)
    yield name
    asyncio.run(administer(server_url, f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture
async def both(both_made: str, url: str) -> AsyncIterator[tuple[Memory, Memory]]:
    """The default one, and the other."""
    async with Memory(url, settings=of("memory")) as default, Memory(url, settings=of(ODD)) as other:
        yield default, other


async def everything(url: str, schema: str) -> dict[str, list[str]]:
    """All rows of all tables, as text."""
    connection = await asyncpg.connect(plain(url))
    try:
        names = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1 ORDER BY 1", schema)
        return {
            table: [row for (row,) in await connection.fetch(ROWS.format(quoted(schema), table))] for (table,) in names
        }
    finally:
        await connection.close()


async def live(memory: Memory, said: str) -> None:
    """The main path."""
    await memory.add([{"role": "user", "content": said}], **TALK)
    await memory.conversations.form(agent_id="ada", conversation_id="c")
    (found, *_) = await memory.observations.list(**MIA)
    assert said in found.content
    await memory.scopes.consolidate(agent_id="ada", scope_id=found.scope.id)
    assert said in (await memory.search("What is my dog called?", **MIA)).results[0].observation.content
    assert said in str(await memory.context(message="What is my dog called?", **MIA))
    assert str(await memory.digest(**MIA))
    await memory.observe("Mia likes tea.", **MIA)
    await memory.work.maintain()
    await memory.work.backlog()
    assert [line async for line in memory.people.export(**MIA)]
    for view in VIEWS:
        await memory.admin.export(view, to=io.BytesIO())
    assert await memory.admin.verify(hashes=True) == []


async def test_the_main_path_runs_where_there_is_no_default_schema(url: str, name: str) -> None:
    """Whatever still said `memory.` would fail here."""
    await asyncio.to_thread(migrate.upgrade, url, schema=name)
    async with Memory(url, settings=of(name)) as memory:
        await live(memory, CANARY)
        await memory.forget(Selection(user_id="mia"), agent_id="ada")
        assert await memory.admin.verify(hashes=True) == []
    left = await everything(url, name)
    assert not any("Quetzal" in row for table in left.values() for row in table)
    await vacuum(url, name)
    assert await everything(url, "memory") == {}


async def test_no_function_names_the_default_schema(url: str, name: str) -> None:
    await asyncio.to_thread(migrate.upgrade, url, schema=name)
    connection = await asyncpg.connect(plain(url))
    functions = await connection.fetch(
        "SELECT p.proname, regexp_replace(pg_get_functiondef(p.oid), '--[^\\n]*', '', 'g') FROM pg_proc p"
        " JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1",
        name,
    )
    assert len(functions) > 100
    settings = re.compile(r"memory\.(principal_|copying)")
    assert [found for found, body in functions if "memory." in settings.sub("", body)] == []
    await connection.close()


async def test_nothing_of_one_is_seen_or_changed_in_the_other(url: str, both: tuple[Memory, Memory]) -> None:
    default, other = both
    await live(default, CANARY)
    before = await everything(url, "memory")
    await live(other, OTHERS)
    assert await everything(url, "memory") == before
    mine, others = [str(await everything(url, schema)) for schema in ("memory", ODD)]
    assert ("Quetzal" in mine, "Xylander" in mine, "Quetzal" in others, "Xylander" in others) == (
        True,
        False,
        False,
        True,
    )
    await other.forget(Selection(everything=True), agent_id="ada")
    assert await everything(url, "memory") == before
    assert "Xylander" not in str(await everything(url, ODD))
    assert [await memory.admin.verify(hashes=True) for memory in both] == [[], []]


async def test_both_join_one_transaction_of_a_host(url: str, both: tuple[Memory, Memory]) -> None:
    engine = create_async_engine(asyncpg_url(url), poolclass=NullPool)
    for commits in (False, True):
        async with AsyncSession(engine) as session:
            await session.execute(text("CREATE TEMP TABLE mine (memory text) ON COMMIT DROP"))
            for memory, said in zip(both, (CANARY, OTHERS), strict=True):
                await memory.observe(said, **MIA, session=session)
                (found,) = await memory.observations.list(**MIA, session=session)
                assert found.content == said
            # what the host itself sends is sent as it is
            assert await session.scalar(text("SELECT count(*) FROM memory.observations")) == 1
            assert (await session.scalar(text("SELECT 'memory.messages'"))) == "memory.messages"
            await (session.commit() if commits else session.rollback())
        counts = [len(await memory.observations.list(**MIA)) for memory in both] if commits else []
    assert counts == [1, 1]
    await engine.dispose()


async def test_both_share_a_hosts_engine(url: str, both: tuple[Memory, Memory]) -> None:
    engine = create_async_engine(asyncpg_url(url), pool_size=1, max_overflow=0)
    async with AsyncExitStack() as opened:
        default, other = [
            await opened.enter_async_context(Memory(engine=engine, settings=of(schema))) for schema in ("memory", ODD)
        ]
        await live(default, CANARY)
        await live(other, OTHERS)
        assert len({str(await everything(url, schema)) for schema in ("memory", ODD)}) == 2
    async with engine.connect() as connection:
        assert await connection.scalar(text("SELECT 'memory.messages'")) == "memory.messages"
    await engine.dispose()


@pytest.mark.open
def test_code_that_blocks_joins_both(server_url: str, database_url: str) -> None:
    migrate.upgrade(database_url, schema=ODD)
    with (
        sync.Memory(database_url, settings=of("memory")) as default,
        sync.Memory(database_url, settings=of(ODD)) as other,
        psycopg.connect(libpq(database_url)) as host,
    ):
        default.observe(CANARY, **MIA, session=host)
        other.observe(OTHERS, **MIA, session=host)
        assert [one.observations.list(**MIA, session=host)[0].content for one in (default, other)] == [CANARY, OTHERS]
        host.commit()
        assert [one.observations.list(**MIA)[0].content for one in (default, other)] == [CANARY, OTHERS]


@pytest.mark.direct
async def test_a_worker_is_woken_by_its_own_schema_only(url: str, both: tuple[Memory, Memory]) -> None:
    default, other = both
    heard: dict[str, asyncio.Queue[None]] = {one.database.schema: asyncio.Queue() for one in both}
    tasks = [
        asyncio.create_task(listen(one.database, partial(heard[one.database.schema].put_nowait, None))) for one in both
    ]
    async with asyncio.timeout(30):
        for queue in heard.values():  # it listens
            await queue.get()
        await other.add([{"role": "user", "content": CANARY}], **TALK)
        await heard[ODD].get()
    assert heard["memory"].empty()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await Worker(other).run_once()
    assert len(await other.observations.list(**MIA)) == 1
    assert await default.admin.agents() == []


async def test_each_has_walls_of_its_own(url: str, both: tuple[Memory, Memory]) -> None:
    """A principal that is named for one is none in the other, whose rows stay hidden."""
    default, other = both
    await default.observe(CANARY, **MIA)
    await other.observe(OTHERS, **MIA)
    pid = os.getpid()
    sets = {
        schema: Roles.of(f"o_{n}_{pid}", f"a_{n}_{pid}", f"r_{n}_{pid}") for n, schema in enumerate(("memory", ODD))
    }
    login = f"both_{pid}"
    try:
        for schema, named in sets.items():
            assert await make(url, named, schema)
        await administer(url, f"CREATE ROLE {login} LOGIN PASSWORD 'x' IN ROLE {sets['memory'].app}, {sets[ODD].app}")
        theirs = asyncpg_url(url).set(username=login, password="x").render_as_string(hide_password=False)
        async with Memory(theirs, settings=of("memory")) as one, Memory(theirs, settings=of(ODD)) as two:
            assert (one.database.walled, two.database.walled) == (True, True)
            assert [(await each.observations.list(**MIA))[0].content for each in (one, two)] == [CANARY, OTHERS]
            async with one.database.transaction(principal={**MIA, "conversation_id": None}) as unit:
                counted = "SELECT (SELECT count(*) FROM memory.observations), (SELECT count(*) FROM {}.observations)"
                driver: Any = (await (await unit.connection()).get_raw_connection()).driver_connection
                assert tuple(await driver.fetchrow(counted.format(quoted(ODD)))) == (1, 0)
            await two.forget(Selection(user_id="mia"), agent_id="ada")
            assert len(await one.observations.list(**MIA)) == 1
            assert [await each.admin.verify(hashes=True) for each in both] == [[], []]
    finally:
        for schema, named in sets.items():
            await drop(url, named, schema)
        await administer(url, f"DROP ROLE IF EXISTS {login}")
    assert [await each.admin.verify() for each in both] == [[], []]


async def test_behind_a_pooler(url: str, both: tuple[Memory, Memory], request: pytest.FixtureRequest) -> None:
    pooler: Pooler = request.getfixturevalue("pooler")
    async with Memory(pooler.url(url), settings=of("memory")) as one, Memory(pooler.url(url), settings=of(ODD)) as two:
        await live(one, CANARY)
        await live(two, OTHERS)


async def test_each_is_reset_and_checked_alone(url: str, both: tuple[Memory, Memory]) -> None:
    default, other = both
    await default.observe(CANARY, **MIA)
    await other.observe(OTHERS, **MIA)
    before = await everything(url, "memory")
    await asyncio.to_thread(migrate.reset, url, schema=ODD)
    assert await everything(url, "memory") == before
    assert (await everything(url, ODD))["observations"] == []
    await asyncio.to_thread(migrate.downgrade, url, "base", drop=True, schema=ODD)
    assert await everything(url, "memory") == before
    assert await asyncio.to_thread(migrate.check, url) == REVISION
    with pytest.raises(SchemaError, match="run `memory-sql db upgrade`"):
        await asyncio.to_thread(migrate.check, url, schema=ODD)
    with pytest.raises(SchemaError, match="run `memory-sql db upgrade`"):
        async with Memory(url, settings=of("a third")):
            pass


def test_commands_go_by_the_setting(empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_SQL_SCHEMA", ODD)
    for name in ("upgrade", "check", "current"):
        memory_sql("db", name, "--url", empty_database)
    memory_sql("observe", "My dog is called Quetzal.", "--agent", "ada", "--user", "mia", "--url", empty_database)
    memory_sql("admin", "verify", "--url", empty_database)
    monkeypatch.delenv("MEMORY_SQL_SCHEMA")
    memory_sql("db", "check", "--url", empty_database, code=1)


async def test_a_schema_of_somebody_else_is_refused(url: str) -> None:
    await administer(url, 'CREATE SCHEMA "Tenant-1"', 'CREATE TABLE "Tenant-1".agents (a int)')
    with pytest.raises(SchemaError, match="MEMORY_SQL_SCHEMA"):
        await asyncio.to_thread(migrate.upgrade, url, schema="Tenant-1")
    async with connect_once(url) as connection:
        assert await connection.scalar(text('SELECT count(*) FROM "Tenant-1".agents')) == 0


async def test_sql_that_is_printed_makes_the_schema(url: str) -> None:
    printed = io.StringIO()
    with redirect_stdout(printed):
        await asyncio.to_thread(command.upgrade, migrate.alembic_config(schema=ODD), "head", sql=True)
    connection = await asyncpg.connect(plain(url))
    await connection.execute(printed.getvalue())
    await connection.close()
    assert await asyncio.to_thread(migrate.check, url, schema=ODD) == REVISION
