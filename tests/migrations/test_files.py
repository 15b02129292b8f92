"""The migrations as files: dated, in one line, frozen; the first one with a copy of all SQL in the code."""

from __future__ import annotations

import ast
import hashlib
import re
from datetime import datetime
from importlib.resources import files
from itertools import takewhile
from pathlib import Path

import pytest
from alembic.script import Script, ScriptDirectory

from memory_sql.db import ddl, migrate
from memory_sql.db.recorded import REVISION

SCRIPTS = ScriptDirectory.from_config(migrate.alembic_config())
HISTORY = list(SCRIPTS.walk_revisions())[::-1]
PATHS = [Path(script.path) for script in HISTORY]
FIRST = HISTORY[0].module
FOLDER = ddl.scripts() / ddl.FIRST_SCHEMA
RUN = [line.partition("  ")[2] for line in (FOLDER / ddl.FINGERPRINTED).read_text("utf-8").splitlines()]
FROZEN = {name: (FOLDER / name).read_text("utf-8") for name in RUN}
SQL = Path(str(files("memory_sql.db") / "sql"))
NEVER_MIGRATED = ("invariants", "roles")
SQL_FILES = sorted(file for file in SQL.rglob("*.sql") if file.parent.name not in NEVER_MIGRATED)
DATED = re.compile(r"\d{4}-\d\d-\d\d-\d{4}_[a-z0-9_]+\.py")
BEGINS = re.compile(r"(?:--[^\n]*\n)*\s*(?:CREATE|COMMENT|REVOKE|ALTER|DROP|DO|INSERT)\s")
CREATED = re.compile(r"^CREATE(?: OR REPLACE)? (FUNCTION|VIEW|TRIGGER|TABLE) ([\w.]+)", re.MULTILINE)

each_migration = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
each_sql_file = pytest.mark.parametrize("path", SQL_FILES, ids=lambda path: path.stem)
each_frozen_script = pytest.mark.parametrize("name", FROZEN)


def test_every_file_is_part_of_one_line_of_history() -> None:
    versions = migrate.scripts() / "versions"
    assert sorted(PATHS) == sorted(versions.glob("*.py"))
    assert [script.down_revision for script in HISTORY] == [None, *(script.revision for script in HISTORY[:-1])]
    assert sorted(PATHS) == PATHS
    folders = {path for path in versions.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders <= {path.with_suffix("") for path in PATHS}


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
    assert imported <= {"__future__", "collections", "contextlib", "hashlib", "pathlib", "re", "sqlalchemy", "alembic"}


@each_migration
def test_migration_has_a_real_downgrade(path: Path) -> None:
    functions = {node.name: node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}
    assert not isinstance(functions["downgrade"].body[-1], ast.Pass | ast.Raise)


# The first schema


@each_frozen_script
def test_script_is_split_into_whole_statements(name: str) -> None:
    script = FROZEN[name]
    statements = list(FIRST.statements_of(script))
    assert "".join("".join(f"{statement};" for statement in statements).split()) == "".join(script.split())
    assert [statement for statement in statements if not BEGINS.match(statement)] == []


@pytest.mark.parametrize(
    ("script", "statements"),
    [
        ("", []),
        ("SELECT 1; SELECT 2", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';'';', 'it''s';", ["SELECT ';'';', 'it''s'"]),
        ("-- It's one; and more\nSELECT 1;\n", ["-- It's one; and more\nSELECT 1"]),
        ("DO $$ BEGIN a; b; END $$;\nDO $x$ $$;$$ $x$;", ["DO $$ BEGIN a; b; END $$", "DO $x$ $$;$$ $x$"]),
        ("SELECT $1 - 2 -> 'a';", ["SELECT $1 - 2 -> 'a'"]),
    ],
    ids=["nothing", "two", "strings", "comment", "bodies", "signs"],
)
def test_semicolon_ends_a_statement_outside_of_bodies_strings_and_comments(script: str, statements: list[str]) -> None:
    assert list(FIRST.statements_of(script)) == statements


@each_frozen_script
def test_way_back_drops_each_object_that_a_script_makes(name: str) -> None:
    dropped = {
        (kind, re.sub(r" ON .*", "", one.strip()))
        for kind, names in re.findall(r"^DROP (\w+) ([^;]+);$", FROZEN["drop.sql"], re.MULTILINE)
        for one in names.split(",")
    }
    for made in CREATED.findall(FROZEN[name]):
        assert made in dropped
    assert "POLICY" not in FROZEN[name] or "FROM pg_policies" in FROZEN["drop.sql"]  # all that there are


def test_sums_are_those_of_the_files() -> None:
    lines = (FOLDER / ddl.FINGERPRINTED).read_text("utf-8").splitlines()
    assert [f"{hashlib.sha256(text.encode()).hexdigest()}  {name}" for name, text in FROZEN.items()] == lines
    found = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*") if path.is_file()}
    assert found == {*FROZEN, ddl.FINGERPRINTED}
    assert len(ddl.fingerprint()) == 16


def test_migration_copies_only_what_it_changes() -> None:
    newest = dict[str, str]()
    for path in PATHS:
        copied = scripts_of(path)
        assert [name for name, text in copied.items() if newest.get(name) == text] == []
        newest |= copied


def scripts_of(path: Path) -> dict[str, str]:
    """What a migration runs, by the names of the files, as `ddl.script` has them."""
    folder = path.with_suffix("")
    return {
        str(file.relative_to(folder).with_suffix("")): ddl.statements_of(file.read_text("utf-8"))
        for file in folder.rglob("*.sql")
    }


# The truth


def test_every_sql_file_is_run() -> None:
    names = [str(path.relative_to(SQL).with_suffix("")) for path in SQL_FILES]
    assert sorted(ddl.BEFORE_TABLES + ddl.AFTER_TABLES) == sorted(names)


@each_sql_file
def test_migrations_make_what_the_code_says(path: Path) -> None:
    name = str(path.relative_to(SQL).with_suffix(""))
    made = [copied[name] for copied in map(scripts_of, PATHS) if name in copied]
    assert made[-1:] == [ddl.script(name)], "it needs a migration: CONTRIBUTING.md, Migrations"


@each_sql_file
def test_sql_file_begins_with_its_name_and_a_view_says_its_grain(path: Path) -> None:
    lines = path.read_text().splitlines()
    header = " ".join(takewhile(lambda line: line.startswith("--"), lines))
    assert header.startswith("-- memory:" if path.parent.name == "walls" else f"-- memory.{path.stem}")
    assert path.parent.name != "views" or "One row per " in header
