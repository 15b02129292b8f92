"""Where the suite gets its Postgres, and a fresh migrated database for each test."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from memory_sql.config import Settings
from memory_sql.db import migrate
from memory_sql.db.engine import asyncpg_url
from memory_sql.memory import Memory
from tests.fakes import Scripted
from tests.servers import choose, docker_answers, serve

SHARED = Path(__file__).parents[2] / "shared"
_numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--server", choices=("url", "container", "embedded"), help="where the Postgres of the tests comes from"
    )


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting, key or file of whoever runs the tests reaches them."""
    for name in list(os.environ):
        if name.startswith(("MEMORY_SQL_", "OPENAI_")) and name != "MEMORY_SQL_TEST_URL":
            monkeypatch.delenv(name)
    monkeypatch.setenv("MEMORY_SQL_CONFIG", str(tmp_path / "none.toml"))


@pytest.fixture(scope="session")
def server_url(pytestconfig: pytest.Config) -> Iterator[str]:
    """A database of the server in which others may be created."""
    choice = choose(pytestconfig.getoption("--server"), os.environ, docker_answers)
    with serve(choice, os.environ) as url:
        yield url


async def administer(url: str, *statements: str) -> None:
    engine = create_async_engine(asyncpg_url(url), poolclass=NullPool, isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        for statement in statements:
            await connection.execute(text(statement))
    await engine.dispose()


def named(url: str, database: str) -> str:
    return asyncpg_url(url).set(database=database).render_as_string(hide_password=False)


@pytest.fixture(scope="session")
def template(server_url: str) -> Iterator[str]:
    """The name of a database that the migrations have built; nobody connects to it."""
    name = f"memory_sql_template_{os.getpid()}"
    asyncio.run(administer(server_url, f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}"))
    migrate.upgrade(named(server_url, name))
    yield name
    asyncio.run(administer(server_url, f"DROP DATABASE {name}"))


@pytest.fixture
async def empty_database(server_url: str) -> AsyncIterator[str]:
    """The URL of a database without our schema."""
    name = f"memory_sql_test_{os.getpid()}_{next(_numbers)}"
    await administer(server_url, f"CREATE DATABASE {name}")
    yield named(server_url, name)
    await administer(server_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def database_url(server_url: str, template: str) -> AsyncIterator[str]:
    """The URL of a migrated database of this test's own."""
    name = f"memory_sql_test_{os.getpid()}_{next(_numbers)}"
    await administer(server_url, f"CREATE DATABASE {name} TEMPLATE {template}")
    yield named(server_url, name)
    await administer(server_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def settings() -> Settings:
    return Settings(llm="offline")


@pytest.fixture
def llm() -> Scripted:
    return Scripted()


@pytest.fixture
async def memory(database_url: str, llm: Scripted, settings: Settings) -> AsyncIterator[Memory]:
    async with Memory(database_url, llm, settings) as opened:
        yield opened


@pytest.fixture
def shared() -> Path:
    """Material that isn't in a user's clone; what needs it is skipped there."""
    if not SHARED.is_dir():
        pytest.skip("needs the material beside the checkout")
    return SHARED
