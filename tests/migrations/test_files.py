"""The migrations as files: dated, in one line, frozen, and with the text of every function and view as it is now."""

from __future__ import annotations

import ast
import re
from datetime import datetime
from importlib.resources import files
from itertools import takewhile
from pathlib import Path

import pytest
from alembic.script import Script, ScriptDirectory

from memory_sql.db import ddl, migrate
from memory_sql.db.engine import REVISION

SCRIPTS = ScriptDirectory.from_config(migrate.alembic_config())
HISTORY = list(SCRIPTS.walk_revisions())[::-1]
PATHS = [Path(script.path) for script in HISTORY]
SQL_FILES = sorted(
    file
    for folder in ("functions", "views", "walls")
    for file in Path(str(files("memory_sql.db") / folder)).glob("*.sql")
)
DATED = re.compile(r"\d{4}-\d\d-\d\d-\d{4}_[a-z0-9_]+\.py")

each_migration = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
each_sql_file = pytest.mark.parametrize("path", SQL_FILES, ids=lambda path: path.stem)


def test_every_file_is_part_of_one_line_of_history() -> None:
    assert sorted(PATHS) == sorted((migrate.scripts() / "versions").glob("*.py"))
    assert [script.down_revision for script in HISTORY] == [None, *(script.revision for script in HISTORY[:-1])]
    assert sorted(PATHS) == PATHS


def test_release_needs_the_newest_migration() -> None:
    assert REVISION == migrate.head() == HISTORY[-1].revision


@pytest.mark.parametrize("script", HISTORY, ids=lambda script: script.revision)
def test_file_name_has_the_date_of_the_migration(script: Script) -> None:
    name = Path(script.path).name
    created = re.search(r"^Create Date: (.+)$", script.longdoc, re.MULTILINE)
    assert DATED.fullmatch(name)
    assert created is not None
    assert name.startswith(f"{datetime.fromisoformat(created[1]):%Y-%m-%d-%H%M}_")


@each_migration
def test_migration_imports_nothing_of_ours(path: Path) -> None:
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or ".").partition(".")[0])
    assert imported <= {"__future__", "re", "sqlalchemy", "alembic"}


@each_migration
def test_migration_has_a_real_downgrade(path: Path) -> None:
    functions = {node.name: node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}
    assert not isinstance(functions["downgrade"].body[-1], ast.Pass | ast.Raise)


@each_sql_file
def test_newest_frozen_copy_is_the_file(path: Path) -> None:
    """The frozen copy of `v_pending.sql` is the constant `V_PENDING` of a migration."""
    copies = [getattr(script.module, path.stem.upper(), None) for script in HISTORY]
    assert [copy.strip() for copy in copies if copy is not None][-1] == path.read_text().strip()


def test_every_sql_file_is_run() -> None:
    assert sorted(ddl.BEFORE_TABLES + ddl.FUNCTIONS + ddl.VIEWS + ddl.WALLS) == sorted(path.stem for path in SQL_FILES)


@each_sql_file
def test_sql_file_begins_with_its_name_and_a_view_says_its_grain(path: Path) -> None:
    lines = path.read_text().splitlines()
    header = " ".join(takewhile(lambda line: line.startswith("--"), lines))
    assert header.startswith("-- memory:" if path.parent.name == "walls" else f"-- memory.{path.stem}")
    assert path.parent.name != "views" or "One row per " in header
