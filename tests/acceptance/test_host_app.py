"""`examples/host_app`: memory in a host's own database, its migrations and its transactions."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from examples.host_app.app import AGENT, Wish, book, catch_up, remember, retrying, store
from examples.host_app.models import Base
from memory_sql.config import Settings
from memory_sql.db import migrate
from memory_sql.db.engine import connect_once
from memory_sql.db.recorded import REVISION
from memory_sql.db.roles import Roles, drop, make
from memory_sql.db.urls import asyncpg_url
from memory_sql.errors import ConfigurationError, DatabaseError, InputError, SchemaError
from memory_sql.llm import Request
from memory_sql.memory import Memory
from tests.conftest import administer, named
from tests.database import rows
from tests.factories import message
from tests.fakes import Scripted, extracted
from tests.migrations.databases import dump, execute, fetch, psql, schema_of
from tests.sizes import few_in_ci

CHECKOUT = Path(__file__).parents[2]
HOST_APP = CHECKOUT / "examples" / "host_app"
DEPLOYING = CHECKOUT / "docs" / "deploying.md"
MIA: dict[str, Any] = {"agent_id": AGENT, "user_id": "mia"}
OUR_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'memory' AND tablename <> 'alembic_version'"
HOST_TABLES = (
    "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'alembic_version' ORDER BY 1"
)
ALL_ROWS = """
SELECT (SELECT count(*) FROM public.bookings), (SELECT count(*) FROM memory.messages),
       (SELECT count(*) FROM memory.observations)
"""
IN_TRANSACTION = """
SELECT query FROM pg_stat_activity
WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
"""
_numbers = itertools.count(1)
ISOLATED = ("REPEATABLE READ", "SERIALIZABLE")


def wish(n: int = 1, customer: str = "mia", **more: Any) -> Wish:
    said = message("I prefer a berth near the crane.", n=n)
    given = {"berth": f"C{n}", "conversation": f"phone-{n}", "messages": [said], **more}
    return Wish(customer=customer, club="yacht-club", night=date(2026, 6, 5), **given)


def run_alembic(section: str, name: str, *arguments: str, url: str, drop: bool = False) -> None:
    config = Config(HOST_APP / "alembic.ini", ini_section=section)
    if drop:
        config.attributes["memory_sql"] = "drop"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARBOUR_URL", url)
        patch.setattr(sys, "path", [*sys.path])  # Alembic adds the example's directory
        getattr(command, name)(config, *arguments)


async def alembic(section: str, name: str, *arguments: str, url: str) -> None:
    await asyncio.to_thread(run_alembic, section, name, *arguments, url=url)


def deploy(way: str, url: str) -> None:
    if way == "branch":
        run_alembic("branch", "upgrade", "heads", url=url)
    else:
        run_alembic("alembic", "upgrade", "head", url=url)
        migrate.upgrade(url)


@pytest.fixture(scope="module")
def templates(server_url: str) -> Iterator[dict[str, str]]:
    """For each way the name of a database that was deployed so."""
    names = {way: f"memory_sql_harbour_{way}_{os.getpid()}" for way in ("apart", "branch")}
    for way, name in names.items():
        asyncio.run(administer(server_url, f"CREATE DATABASE {name}"))
        deploy(way, named(server_url, name))
    yield names
    asyncio.run(administer(server_url, *(f"DROP DATABASE {name} WITH (FORCE)" for name in names.values())))


@asynccontextmanager
async def clone(server_url: str, template: str) -> AsyncIterator[str]:
    name = f"{template}_{next(_numbers)}"
    await administer(server_url, f"CREATE DATABASE {name} TEMPLATE {template}")
    yield named(server_url, name)
    await administer(server_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def database_url(server_url: str, templates: dict[str, str]) -> AsyncIterator[str]:
    """Deployed apart."""
    async with clone(server_url, templates["apart"]) as url:
        yield url


@pytest.fixture
async def branch(server_url: str, templates: dict[str, str]) -> AsyncIterator[str]:
    async with clone(server_url, templates["branch"]) as url:
        yield url


@pytest.fixture(params=("apart", "branch"))
async def deployed(
    request: pytest.FixtureRequest, server_url: str, templates: dict[str, str]
) -> AsyncIterator[tuple[str, str]]:
    """The way, and the URL of a database that holds a booking and what is remembered of it."""
    async with clone(server_url, templates[request.param]) as url:
        async with Memory(url, Scripted(), Settings(llm="offline")) as memory, host(url) as sessions:
            await book(sessions, memory, wish())
        yield request.param, url


@asynccontextmanager
async def host(url: str, **options: Any) -> AsyncIterator[async_sessionmaker[AsyncSession]]:
    engine = create_async_engine(asyncpg_url(url), pool_size=10, **options)
    yield async_sessionmaker(engine)
    await engine.dispose()


async def refused(url: str) -> str:
    with pytest.raises(SchemaError) as caught:
        await Memory(url, Scripted()).open()
    return str(caught.value)


# Deploying


@pytest.mark.slow
async def test_both_ways_bring_everything_up_to_date(deployed: tuple[str, str]) -> None:
    way, url = deployed
    assert len(await fetch(url, OUR_TABLES)) > 5
    assert await fetch(url, HOST_TABLES) == [("bookings",), ("customers",)]
    of_host = {revision for (revision,) in await fetch(url, "SELECT version_num FROM public.alembic_version")}
    assert of_host == {"0002harbour"} | ({REVISION} if way == "branch" else set())
    assert await asyncio.to_thread(migrate.check, url) == await asyncio.to_thread(migrate.current, url) == REVISION


@pytest.mark.slow
async def test_schema_is_the_same_in_both_ways(branch: str, database_url: str) -> None:
    assert schema_of(branch) == schema_of(database_url)


async def test_hosts_autogenerate_finds_nothing_to_do(deployed: tuple[str, str]) -> None:
    way, url = deployed
    await alembic("branch" if way == "branch" else "alembic", "check", url=url)


@pytest.mark.filterwarnings(
    "ignore:Computed default on (observations|messages).(search|cues) cannot be modified:UserWarning"
)
async def test_our_autogenerate_finds_nothing_to_do_beside_the_hosts_tables(database_url: str) -> None:
    await asyncio.to_thread(command.check, migrate.alembic_config(database_url))


@pytest.mark.slow
async def test_each_filter_keeps_our_tables_from_being_dropped(branch: str) -> None:
    def compare(connection: Connection, /, **filters: Any) -> list[Any]:
        context = MigrationContext.configure(connection, opts={"include_schemas": True, **filters})
        return list(compare_metadata(context, Base.metadata))

    async with connect_once(branch) as connection:
        unfiltered = await connection.run_sync(compare)
        assert any(step[0] == "remove_table" and step[1].schema == "memory" for step in unfiltered)
        assert await connection.run_sync(partial(compare, include_name=migrate.host_include_name)) == []
        assert await connection.run_sync(partial(compare, include_object=migrate.host_include_object)) == []


@pytest.mark.filterwarnings("ignore:downgrade -1 from multiple heads is ambiguous:UserWarning")
@pytest.mark.parametrize("revision", ["-1", "base", "memory_sql@base"])
async def test_downgrade_of_the_host_takes_no_memory_along_unasked(branch: str, revision: str) -> None:
    """Whichever line a plain -1 goes back in: what is remembered isn't dropped by somebody who meant another table."""
    async with Memory(branch, Scripted(), Settings(llm="offline")) as memory:
        await memory.observe("Tea.", **MIA)

    async def go_down() -> None:
        for _ in range(4):
            await alembic("branch", "downgrade", revision, url=branch)

    with pytest.raises(DBAPIError, match="this would delete everything that is remembered"):
        await go_down()
    await alembic("branch", "upgrade", "heads", url=branch)  # the newest may lose nothing, and go
    async with Memory(branch, Scripted()) as memory:
        assert len(await memory.observations.list(**MIA)) == 1


@pytest.mark.slow
async def test_either_line_goes_down_and_up_without_the_other(deployed: tuple[str, str]) -> None:
    way, url = deployed
    if way == "branch":
        section, base, top = "branch", "harbour@base", "heads"
        down: Callable[[], None] = partial(run_alembic, "branch", "downgrade", "memory_sql@base", drop=True, url=url)
    else:
        section, base, top = "alembic", "base", "head"
        down = partial(migrate.downgrade, url, "base", drop=True)

    await alembic(section, "downgrade", base, url=url)
    assert await fetch(url, HOST_TABLES) == []
    async with Memory(url, Scripted()) as memory:
        assert len(await memory.observations.list(**MIA)) == 1
    await alembic(section, "upgrade", top, url=url)

    await execute(url, "INSERT INTO public.customers (customer_id) VALUES ('ann')")
    await asyncio.to_thread(down)
    assert await fetch(url, OUR_TABLES) == []
    assert "no schema" in await refused(url) or REVISION in await refused(url)
    assert await fetch(url, "SELECT customer_id FROM public.customers") == [("ann",)]
    await asyncio.to_thread(deploy, way, url)
    async with Memory(url, Scripted()) as memory:
        assert await memory.observations.list(**MIA) == []


@pytest.mark.prove
async def test_upgrades_at_once_take_turns(empty_database: str) -> None:
    runs = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "alembic", "-n", "branch", "upgrade", "heads"),
            cwd=HOST_APP,
            env={**os.environ, "HARBOUR_URL": empty_database},
        )
        for _ in range(3)
    ]
    assert [await run.wait() for run in runs] == [0, 0, 0]
    async with Memory(empty_database, Scripted()) as memory:
        assert await memory.observations.list(**MIA) == []


@pytest.mark.slow
async def test_hosts_upgrade_gives_up_on_a_lock(branch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "LOCK_TIMEOUT", "100ms")
    async with connect_once(branch) as reader:
        await reader.exec_driver_sql("SELECT FROM memory.agents")
        with pytest.raises(DBAPIError, match="lock timeout"):
            async with asyncio.timeout(20):
                await alembic("branch", "downgrade", "memory_sql@base", url=branch)


async def test_what_the_hosts_alembic_keeps_isnt_changed_by_ours(branch: str) -> None:
    for act in (migrate.upgrade, partial(migrate.downgrade, revision="base")):
        with pytest.raises(SchemaError, match="alembic upgrade heads"):
            await asyncio.to_thread(act, branch)
    async with Memory(branch, Scripted()):
        assert await fetch(branch, "SELECT to_regclass('memory.alembic_version')") == [(None,)]


@pytest.mark.slow
async def test_schema_alone_restored_as_a_branch_is_stamped(
    branch: str, server_url: str, templates: dict[str, str]
) -> None:
    async with Memory(branch, Scripted()) as memory:
        await memory.observe("Tea.", **MIA)
    script = dump(branch, "--schema=memory")
    async with clone(server_url, templates["branch"]) as target:
        await execute(
            target, "DROP SCHEMA memory CASCADE", "DELETE FROM alembic_version WHERE version_num NOT LIKE '%harbour'"
        )
        psql(target, script)
        with pytest.raises(SchemaError):
            await Memory(target, Scripted()).open()
        await alembic("branch", "stamp", "memory_sql@head", url=target)
        async with Memory(target, Scripted()) as memory:
            assert [o.content for o in await memory.observations.list(**MIA)] == ["Tea."]


async def test_older_branch_of_ours_is_refused(branch: str) -> None:
    await alembic("branch", "downgrade", "memory_sql@-1", url=branch)
    assert re.search(f"{REVISION}.*0002harbour.*alembic upgrade heads", await refused(branch))
    with pytest.raises(SchemaError, match="alembic upgrade heads"):
        await asyncio.to_thread(migrate.check, branch)


async def test_version_table_of_the_host_may_lie_and_be_called_as_it_likes(branch: str) -> None:
    await execute(
        branch,
        "CREATE SCHEMA harbour",
        "ALTER TABLE public.alembic_version SET SCHEMA harbour",
        'ALTER TABLE harbour.alembic_version RENAME TO "our Versions"',
        'ALTER TABLE harbour."our Versions" RENAME CONSTRAINT alembic_version_pkc TO "our Versions_pkc"',
        "CREATE TABLE public.documents (document_id int PRIMARY KEY, version_num int)",
    )
    async with Memory(branch, Scripted()):
        assert await asyncio.to_thread(migrate.current, branch) == REVISION


async def test_documented_sql_moves_a_database_from_one_way_to_the_other(deployed: tuple[str, str]) -> None:
    way, url = deployed
    (to_branch, to_apart) = re.findall(r"```sql\n(BEGIN.*?)```", DEPLOYING.read_text("utf-8"), re.DOTALL)
    to_the_other, back = (to_apart, to_branch) if way == "branch" else (to_branch, to_apart)
    for script in (to_the_other, back):
        statements = script.replace("BEGIN;", "").replace("COMMIT;", "").split(";")
        await execute(url, *[statement for statement in statements if statement.strip()])
        async with Memory(url, Scripted()) as memory:
            assert len(await memory.observations.list(**MIA)) == 1
        way = "branch" if way == "apart" else "apart"
        await asyncio.to_thread(deploy, way, url)  # finds nothing to do


@pytest.mark.slow
async def test_documented_commands_start_over_where_the_hosts_alembic_keeps_the_schema(branch: str) -> None:
    async with Memory(branch, Scripted()) as memory:
        await memory.observe("Sails alone.", **MIA)
    await execute(branch, "DROP FUNCTION memory.schema_fingerprint()")
    assert "unreleased version" in await refused(branch)
    (section,) = re.findall(r"### Starting over\n(.*?)\n##", DEPLOYING.read_text("utf-8"), re.DOTALL)
    await execute(branch, *re.findall(r'psql -c "(.+)"', section))
    assert "alembic upgrade heads" in section
    await alembic("branch", "upgrade", "heads", url=branch)
    async with Memory(branch, Scripted()) as memory:
        assert await memory.observations.list(**MIA) == []


@pytest.mark.slow
@pytest.mark.parametrize("way", few_in_ci(["apart", "branch"], ["branch"]))
async def test_readme_of_the_example_says_how(empty_database: str, way: str) -> None:
    readme = (HOST_APP / "README.md").read_text("utf-8")
    (apart, as_branch, run) = [
        block for block in re.findall(r"(?:^ {4}.+\n)+", readme, re.MULTILINE) if "export" not in block
    ]
    script = "set -e\n" + re.sub("^    ", "", (as_branch if way == "branch" else apart) + run, flags=re.MULTILINE)
    process = await asyncio.create_subprocess_shell(
        script,
        cwd=HOST_APP.parent,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HARBOUR_URL": empty_database,
            "MEMORY_SQL_LLM": "offline",
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    assert b"near the crane" in out
    assert await fetch(empty_database, "SELECT berth FROM public.bookings") == [("C4",)]


@pytest.fixture
async def roles(server_url: str) -> AsyncIterator[dict[str, str]]:
    """Roles belong to the whole server: names of their own for this test."""
    names = {name: f"{name}_{os.getpid()}" for name in ("harbour_app", "memory_app")}
    yield names
    await administer(server_url, *(f"DROP ROLE IF EXISTS {name}" for name in names.values()))


def as_role(url: str, role: str) -> str:
    return asyncpg_url(url).update_query_dict({"options": f"-c role={role}"}).render_as_string(hide_password=False)


@pytest.mark.slow
async def test_documented_roles_are_enough(roles: dict[str, str], empty_database: str) -> None:
    (script,) = re.findall(r"```sql\n(GRANT memory_app .*?)```", DEPLOYING.read_text("utf-8"), re.DOTALL)
    for name, own in roles.items():
        script = script.replace(name, own)
    walls = Roles.of(f"harbour_owner_{os.getpid()}", roles["memory_app"], f"harbour_analyst_{os.getpid()}")
    await asyncio.to_thread(migrate.upgrade, empty_database)
    await make(empty_database, walls)
    await execute(empty_database, f"CREATE ROLE {roles['harbour_app']}", script)
    app = as_role(empty_database, roles["harbour_app"])
    with pytest.raises(DatabaseError, match="42501"):  # insufficient privilege
        await asyncio.to_thread(migrate.downgrade, app, "base")
    llm = Scripted(extracted(("Prefers the crane.", "individual")), "Prefers the crane; has booked.")
    async with Memory(app, llm, Settings(llm="offline")) as memory:
        assert await rows(memory, "SELECT current_user::text") == [(roles["harbour_app"],)]
        await memory.add(wish().messages, **MIA, conversation_id="phone", group_ids=["yacht-club"])
        formed = await memory.conversations.form(agent_id=AGENT, conversation_id="phone")
        await memory.observe("Booked.", **MIA)
        await memory.scopes.consolidate(agent_id=AGENT, scope_id=formed.observations[0].scope.id)
        assert "has booked" in str(await memory.context(**MIA, message="Where do I like to lie?"))
        assert memory.database.walled
    assert await drop(empty_database, walls) == []


# Behind a pooler, and options in the URL


async def test_pooled_url_leaves_nothing_on_the_server_and_works_in_transactions(database_url: str) -> None:
    url = asyncpg_url(database_url).update_query_dict({"prepared_statement_cache_size": "0"})
    async with Memory(url.render_as_string(hide_password=False), Scripted()) as memory:
        await memory.observe("Tea.", **MIA)
        assert len(await memory.observations.list(**MIA)) == 1
        async with memory.database.statement() as session:
            named = await session.scalars(text("SELECT name FROM pg_prepared_statements WHERE name <> ''"))
            assert named.all() == []
            assert await session.scalar(text("SELECT now() < statement_timestamp()"))  # BEGIN came before


async def test_options_of_libpq_reach_the_server(database_url: str) -> None:
    options = {"application_name": "harbour", "sslmode": "prefer", "options": "-c search_path=nowhere"}
    url = asyncpg_url(database_url).update_query_dict(options).render_as_string(hide_password=False)
    async with Memory(url, Scripted()) as memory:
        shown = "SELECT current_setting('application_name'), current_setting('search_path'), current_setting('jit')"
        assert await rows(memory, shown) == [("harbour", "nowhere", "off")]


def test_options_that_cant_be_used_are_named_without_their_values() -> None:
    with pytest.raises(ConfigurationError, match=r"hostaddr: .*; channel_binding: "):
        asyncpg_url("postgresql://mia@localhost/x?hostaddr=::1&channel_binding=require&sslmode=require")


# One transaction


@pytest.fixture
async def sessions(database_url: str) -> AsyncIterator[async_sessionmaker[AsyncSession]]:
    async with host(database_url) as opened:
        yield opened


@pytest.mark.parametrize("ends", ["commit", "rollback"])
async def test_memory_stands_or_falls_with_the_booking(
    memory: Memory, sessions: async_sessionmaker[AsyncSession], ends: str
) -> None:
    async def book_and_look() -> None:
        async with sessions.begin() as session:
            await remember(session, memory, wish(), await store(session, wish()))
            assert "berth C1" in str(await memory.context(**MIA, session=session))
            assert len((await memory.search("berth", **MIA, session=session)).results) == 1
            assert await memory.observations.list(**MIA) == []  # from outside
            assert await rows(memory, ALL_ROWS) == [(0, 0, 0)]
            if ends == "rollback":
                raise RuntimeError("the harbour is closed")

    if ends == "rollback":
        with pytest.raises(RuntimeError):
            await book_and_look()
    else:
        await book_and_look()
    there = int(ends == "commit")
    assert await rows(memory, ALL_ROWS) == [(there, there, there)]


async def test_nothing_is_remembered_of_a_berth_that_was_taken(
    memory: Memory, sessions: async_sessionmaker[AsyncSession]
) -> None:
    await book(sessions, memory, wish(1))
    with pytest.raises(IntegrityError):
        await book(sessions, memory, wish(2, customer="ann", berth="C1"))
    assert await rows(memory, ALL_ROWS) == [(1, 1, 1)]
    assert await memory.observations.list(agent_id=AGENT, user_id="ann") == []


@pytest.mark.slow
@pytest.mark.parametrize("conversations", ["one", "many"])
@pytest.mark.parametrize("known", [False, True], ids=["strangers", "acquainted"])
async def test_bookings_at_once_dont_deadlock(
    memory: Memory, sessions: async_sessionmaker[AsyncSession], conversations: str, known: bool
) -> None:
    if known:
        await book(sessions, memory, wish(99))
    common = {"conversation": "phone"} if conversations == "one" else {}
    await asyncio.gather(*(book(sessions, memory, wish(n, **common)) for n in range(10)))
    assert await rows(memory, ALL_ROWS) == [(10 + known, 10 + known, 10 + known)]
    assert await rows(memory, "SELECT count(*) FROM memory.members") == [(1,)]


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ISOLATED)
@pytest.mark.parametrize(
    ("known", "at"), [(False, "add"), (True, "add"), (True, "observe")], ids=["strangers", "at add", "at observe"]
)
async def test_conflict_is_the_hosts_serialization_failure_and_a_retry_succeeds(
    memory: Memory, database_url: str, isolation: str, at: str, known: bool
) -> None:
    shared: dict[str, Any] = {"conversation": "phone"} if at == "add" else {}
    if known:
        await memory.add([message(n=98)], **MIA, conversation_id="phone", group_ids=["yacht-club"])
        await memory.observe("Sails alone.", **MIA)
    before = (await rows(memory, ALL_ROWS))[0]
    await execute(database_url, "INSERT INTO public.customers (customer_id) VALUES ('mia')")
    codes: list[str] = []

    async with host(database_url, isolation_level=isolation) as sessions:

        async def overtaken() -> None:
            """Another booking of the same customer commits after this one's snapshot was taken."""
            async with sessions.begin() as session:
                await session.execute(text("SELECT FROM public.bookings"))
                if not codes:
                    await book(sessions, memory, wish(1, **shared))
                booking_id = await store(session, wish(2))
                try:
                    await remember(session, memory, wish(2, **shared), booking_id)
                except DBAPIError as error:
                    codes.append(str(getattr(error.orig, "sqlstate", None)))
                    raise
            assert codes

        await retrying(overtaken)
    assert codes == ["40001"]
    assert await rows(memory, ALL_ROWS) == [tuple(count + 2 for count in before)]


@pytest.mark.slow
async def test_serializable_sees_what_the_host_read_before_it_remembered(memory: Memory, database_url: str) -> None:
    await memory.observe("Sails alone.", **MIA)
    await memory.observe("Sails in company.", agent_id=AGENT, user_id="ann")
    async with host(database_url, isolation_level="SERIALIZABLE") as sessions, sessions() as one, sessions() as two:
        await memory.context(agent_id=AGENT, user_id="ann", session=one)
        await memory.context(**MIA, session=two)
        await memory.observe("Has a dog.", **MIA, session=one)
        with pytest.raises(DBAPIError) as caught:  # noqa: PT012 (either of the two may be told)
            await memory.observe("Has a cat.", agent_id=AGENT, user_id="ann", session=two)
            await one.commit()
            await two.commit()
        assert getattr(caught.value.orig, "sqlstate", None) == "40001"
    assert (
        len(await memory.observations.list(**MIA)) + len(await memory.observations.list(agent_id=AGENT, user_id="ann"))
        < 4
    )


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ISOLATED)
async def test_isolated_bookings_at_once_all_succeed_by_retrying(
    memory: Memory, database_url: str, isolation: str
) -> None:
    async with host(database_url, isolation_level=isolation) as sessions:
        wishes = [wish(n) for n in range(6)]
        await asyncio.gather(*(retrying(partial(book, sessions, memory, w), attempts=30) for w in wishes))
    assert await rows(memory, ALL_ROWS) == [(6, 6, 6)]


async def test_waiting_for_the_model_in_the_hosts_transaction_is_an_error(
    memory: Memory, sessions: async_sessionmaker[AsyncSession]
) -> None:
    async with sessions.begin() as session:
        with pytest.raises(InputError, match="wait=True"):
            await memory.add(wish().messages, **MIA, conversation_id="phone", session=session, wait=True)


@pytest.mark.slow
async def test_model_is_asked_later_and_while_no_transaction_is_open(
    memory: Memory, llm: Scripted, sessions: async_sessionmaker[AsyncSession]
) -> None:
    open_then: list[Any] = []

    async def answer(_request: Request[Any]) -> str:
        open_then.extend(await rows(memory, IN_TRANSACTION))
        return extracted(("Prefers a berth near the crane.", "individual"))

    await book(sessions, memory, wish())  # a signal ("I prefer …") makes the conversation due at once
    assert llm.requests == []
    llm.then(answer)
    assert await catch_up(memory) == 1
    assert len(llm.requests) == 1
    assert open_then == []
    newest, _booking = await memory.observations.list(**MIA)
    assert newest.content == "Prefers a berth near the crane."
