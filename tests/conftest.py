"""The Postgres of the suite, and a fresh migrated database for each test."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import os
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from memory_sql.config import Settings
from memory_sql.db import migrate
from memory_sql.db.roles import Roles, drop, make
from memory_sql.db.urls import asyncpg_url
from memory_sql.memory import Memory
from tests import recycling
from tests.database import OWNERS
from tests.factories import Clock
from tests.fakes import Scripted
from tests.pooler import PROGRAM, Pooler, pooling
from tests.recycling import Databases
from tests.recycling import administer as administer  # imported from here by what makes databases
from tests.recycling import named as named
from tests.servers import choose, docker_answers, serve
from tests.sizes import share as share  # loads the Hypothesis profile
from tests.warm import Engines

Lend = Callable[[], AbstractAsyncContextManager[str]]
SHARED = Path(__file__).parents[2] / "shared"
_numbers = itertools.count(1)
os.environ["MEMORY_SQL_EMBEDDING"] = "off"  # an encoder may be installed; set here for settings that modules make too


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--server", choices=("url", "container", "embedded"), help="where the Postgres of the tests comes from"
    )
    parser.addoption("--pgbouncer", action="store_true", help="run behind a PgBouncer in transaction mode")
    parser.addoption("--schema", metavar="NAME", help="run in a schema of this name, while there is no default one")
    parser.addoption("--walled", action="store_true", help="run as the role of an application behind walls")


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Of `-n auto`: one more than there are processors, since many tests wait for a process or a lock."""
    return 1 + (yield)


def pytest_configure(config: pytest.Config) -> None:
    name = config.getoption("--schema")
    if name is not None:
        os.environ["MEMORY_SQL_SCHEMA"] = recycling.SCHEMA = name  # here for settings that modules make too


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for option, marker, reason in (
        ("--pgbouncer", "direct", "it needs the server itself, which a pooler gives to somebody else"),
        ("--walled", "open", "it is about the owner of a database, or about one without walls"),
    ):
        for item in items if config.getoption(option) else ():
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting, key or file of whoever runs the tests reaches them.

    The model is the rules: no test has another by default.
    """
    for name in list(os.environ):
        if name.startswith(("MEMORY_SQL_", "OPENAI_")) and name != "MEMORY_SQL_TEST_URL":
            monkeypatch.delenv(name)
    monkeypatch.setenv("MEMORY_SQL_CONFIG", os.devnull)
    monkeypatch.setenv("MEMORY_SQL_SCHEMA", recycling.SCHEMA)
    monkeypatch.setenv("MEMORY_SQL_LLM", "offline")
    monkeypatch.setenv("MEMORY_SQL_EMBEDDING", "off")


@pytest.fixture(autouse=True)
def _no_question_too_many() -> Iterator[None]:
    """Fails the test if the model was asked too often, although the code that asked treated the error as the model's."""
    Scripted.too_many.clear()
    yield
    assert Scripted.too_many == []


@pytest.fixture(autouse=True)
def _no_task_stays(request: pytest.FixtureRequest) -> None:
    """The loop survives a test. What the test left running in it doesn't."""
    if inspect.iscoroutinefunction(getattr(request.node, "function", None)):
        request.getfixturevalue("_own_tasks")


@pytest.fixture
async def _own_tasks() -> AsyncIterator[None]:
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    for task in left:
        task.cancel()
    ended = await asyncio.gather(*left, return_exceptions=True)
    failed = [error for error in ended if isinstance(error, Exception)]
    if failed:
        raise ExceptionGroup("what the test left running has failed", failed)


@pytest.fixture(scope="session")
def server_url(pytestconfig: pytest.Config) -> Iterator[str]:
    """The URL of a database on a server in which others can be created."""
    choice = choose(pytestconfig.getoption("--server"), os.environ, docker_answers)
    with serve(choice, os.environ) as url:
        yield url


@pytest.fixture(scope="session")
def template(server_url: str) -> Iterator[str]:
    """The name of a database built by the migrations. Nobody connects to it."""
    name = f"memory_sql_template_{os.getpid()}"
    asyncio.run(administer(server_url, f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}"))
    migrate.upgrade(named(server_url, name), schema=recycling.SCHEMA)
    yield name
    asyncio.run(administer(server_url, f"DROP DATABASE {name}"))


@pytest.fixture
async def empty_database(server_url: str) -> AsyncIterator[str]:
    """The URL of a database without our schema."""
    name = f"memory_sql_empty_{os.getpid()}_{next(_numbers)}"
    await administer(server_url, f"CREATE DATABASE {name}")
    yield named(server_url, name)
    await administer(server_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def roles() -> Roles:
    """Roles belong to the whole server, so their names are this run's own."""
    return Roles.of(f"owner_{os.getpid()}", f"app_{os.getpid()}", f"analyst_{os.getpid()}")


@pytest.fixture(scope="session")
def walled_template(server_url: str, template: str, roles: Roles) -> Iterator[str]:
    """As `template`, but behind walls, with a login role that is only a member of the application's role."""
    name = f"{template}_walled"
    asyncio.run(
        administer(server_url, f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name} TEMPLATE {template}")
    )
    asyncio.run(make(named(server_url, name), roles, recycling.SCHEMA))
    asyncio.run(administer(server_url, f"CREATE ROLE {login(roles)} LOGIN PASSWORD 'walled' IN ROLE {roles.app}"))
    yield name
    asyncio.run(drop(named(server_url, name), roles, recycling.SCHEMA))
    asyncio.run(administer(server_url, f"DROP ROLE {login(roles)}", f"DROP DATABASE {name}"))


def login(roles: Roles) -> str:
    return f"{roles.app}_login"


def users_of(server_url: str, roles: Roles) -> dict[str, str]:
    """The users of the tests' databases, with their passwords."""
    owner = asyncpg_url(server_url)
    return {owner.username or "postgres": owner.password or "", login(roles): "walled"}


def as_login(url: str, roles: Roles) -> str:
    """The same database, for a member of the application's role."""
    parts = asyncpg_url(url).set(username=login(roles), password="walled")
    return parts.render_as_string(hide_password=False)


@pytest.fixture(scope="session")
async def engines() -> AsyncIterator[Engines]:
    engines = Engines(asyncio.get_running_loop())
    with engines.installed():
        yield engines
    await engines.close()


@asynccontextmanager
async def lent(databases: Databases, engines: Engines) -> AsyncIterator[str]:
    url = await databases.take()
    name = str(asyncpg_url(url).database)
    engines.begin(name)
    yield url
    kept = await databases.give_back(url, spared=engines.pids(name))
    await engines.end(name, dropped=not kept)


@pytest.fixture(scope="session")
async def walled_databases(server_url: str, walled_template: str) -> AsyncIterator[Databases]:
    databases = Databases(server_url, walled_template)
    yield databases
    await databases.close()


@pytest.fixture
async def walled_database(walled_databases: Databases, engines: Engines) -> AsyncIterator[str]:
    """The URL, for a superuser, of a migrated database with roles and walls that nobody else uses meanwhile."""
    async with lent(walled_databases, engines) as url:
        yield url


@pytest.fixture(scope="session")
async def databases(server_url: str, template: str) -> AsyncIterator[Databases]:
    databases = Databases(server_url, template)
    yield databases
    await databases.close()


@pytest.fixture(scope="session")
def chosen_databases(request: pytest.FixtureRequest) -> Databases:
    walled = request.config.getoption("--walled")
    chosen: Databases = request.getfixturevalue("walled_databases" if walled else "databases")
    return chosen


@pytest.fixture(scope="session")
def pooler(server_url: str, roles: Roles) -> Iterator[Pooler]:
    """This run's own PgBouncer, with one connection to the server for each database and role."""
    _skip_without_pgbouncer()
    with pooling(server_url, users_of(server_url, roles), servers=1) as started:
        yield started


@pytest.fixture(scope="session")
def chosen_pooler(request: pytest.FixtureRequest) -> Pooler | None:
    if not request.config.getoption("--pgbouncer"):
        return None
    if PROGRAM is None:
        raise pytest.UsageError("--pgbouncer: it isn't installed here; Debian's package is pgbouncer")
    started: Pooler = request.getfixturevalue("many_pooled")
    return started


@pytest.fixture(scope="session")
def many_pooled(server_url: str, roles: Roles) -> Iterator[Pooler]:
    _skip_without_pgbouncer()
    with pooling(server_url, users_of(server_url, roles), servers=10) as started:
        yield started


def _skip_without_pgbouncer() -> None:
    if PROGRAM is None:
        pytest.skip("PgBouncer isn't installed here")


@pytest.fixture(scope="session")
def lend(
    pytestconfig: pytest.Config,
    chosen_databases: Databases,
    chosen_pooler: Pooler | None,
    engines: Engines,
    roles: Roles,
) -> Lend:
    """For what several tests share: as `database_url`, for as long as the context is open."""

    @asynccontextmanager
    async def lend() -> AsyncIterator[str]:
        async with lent(chosen_databases, engines) as direct:
            url, name = direct, asyncpg_url(direct).database
            if pytestconfig.getoption("--walled"):
                url = as_login(direct, roles)
                OWNERS[name] = direct
            yield url if chosen_pooler is None else chosen_pooler.url(url)
            OWNERS.pop(name, None)

    return lend


@pytest.fixture
async def database_url(lend: Lend) -> AsyncIterator[str]:
    """The URL of an empty migrated database that nobody else uses meanwhile."""
    async with lend() as url:
        yield url


@pytest.fixture
def settings() -> Settings:
    return Settings(llm="offline")


@pytest.fixture
def llm() -> Scripted:
    return Scripted()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def timed(database_url: str, llm: Scripted, settings: Settings, clock: Clock) -> AsyncIterator[Memory]:
    """By that clock."""
    async with Memory(database_url, llm, settings, clock=clock) as memory:
        yield memory


@pytest.fixture
async def memory(database_url: str, llm: Scripted, settings: Settings) -> AsyncIterator[Memory]:
    async with Memory(database_url, llm, settings) as opened:
        yield opened


@pytest.fixture
def shared() -> Path:
    """Material that a user's clone doesn't have. Tests that need it are skipped there."""
    if not SHARED.is_dir():
        pytest.skip("needs the material beside the checkout")
    return SHARED
