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
from migrations import freeze

SCRIPTS = ScriptDirectory.from_config(migrate.alembic_config())
HISTORY = list(SCRIPTS.walk_revisions())[::-1]
PATHS = [Path(script.path) for script in HISTORY]
FIRST = HISTORY[0].module
# Once it is released, the folder is no copy of the code any more.
FROZEN = freeze.contents() if not freeze.is_frozen() else freeze.stored()
SQL = Path(str(files("memory_sql.db") / "sql"))
NEVER_MIGRATED = ("invariants", "roles")
SQL_FILES = sorted(file for file in SQL.rglob("*.sql") if file.parent.name not in NEVER_MIGRATED)
DATED = re.compile(r"\d{4}-\d\d-\d\d-\d{4}_[a-z0-9_]+\.py")
BEGINS = re.compile(r"(?:--[^\n]*\n)*\s*(?:CREATE|COMMENT|REVOKE|ALTER|DROP|DO|INSERT)\s")
CREATED = re.compile(r"^CREATE(?: OR REPLACE)? (FUNCTION|VIEW|TRIGGER|TABLE) ([\w.]+)", re.MULTILINE)

each_migration = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
each_sql_file = pytest.mark.parametrize("path", SQL_FILES, ids=lambda path: path.stem)
each_frozen_file = pytest.mark.parametrize("name", FROZEN)
each_frozen_script = pytest.mark.parametrize("name", [name for name in FROZEN if name.endswith(".sql")])


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


@each_frozen_file
def test_file_of_the_first_schema_is_what_the_code_says(name: str) -> None:
    path = freeze.FOLDER / name
    assert path.is_file(), "run make schema"
    assert path.read_text("utf-8") == FROZEN[name], "run make schema"


def test_first_schema_has_no_file_that_the_code_has_not() -> None:
    found = {str(path.relative_to(freeze.FOLDER)) for path in freeze.FOLDER.rglob("*") if path.is_file()}
    assert found == set(FROZEN), "run make schema"


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
    lines = (freeze.FOLDER / ddl.FINGERPRINTED).read_text().splitlines()
    for line in lines:
        digest, name = line.split("  ")
        assert hashlib.sha256((freeze.FOLDER / name).read_bytes()).hexdigest() == digest
    assert [line.split("  ")[1] for line in lines] == [name for name in FROZEN if name.endswith(".sql")]


@pytest.mark.skipif(freeze.is_frozen(), reason="it is written no more")
def test_make_schema_replaces_what_lies_there(tmp_path: Path) -> None:
    folder = tmp_path / "first"
    folder.mkdir()
    (folder / "old.sql").write_text("SELECT 1;")
    freeze.write(folder)
    assert {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()} == FROZEN


def test_fingerprint_is_another_when_one_letter_of_a_file_is() -> None:
    edited = {**FROZEN, "tables.sql": FROZEN["tables.sql"] + " "}
    assert freeze.sums(edited) != freeze.sums(FROZEN)
    assert len(ddl.fingerprint()) == 16


def test_migrations_are_short() -> None:
    """What a migration doesn't change it doesn't copy. What tells analysts of tables and columns is counted apart."""
    folder = migrate.scripts() / "versions"
    lines = [line for path in folder.rglob("*.*") if path.suffix in (".py", ".sql") for line in _lines_that_run(path)]
    assert len(lines) < 8800


def _lines_that_run(path: Path) -> list[str]:
    return re.sub(r"^COMMENT ON (?:[^;']|'[^']*')*;\n", "", path.read_text(), flags=re.MULTILINE).splitlines()


# The truth


def test_every_sql_file_is_run() -> None:
    names = [str(path.relative_to(SQL).with_suffix("")) for path in SQL_FILES]
    assert sorted(ddl.BEFORE_TABLES + ddl.AFTER_TABLES) == sorted(names)


@each_sql_file
def test_sql_file_begins_with_its_name_and_a_view_says_its_grain(path: Path) -> None:
    lines = path.read_text().splitlines()
    header = " ".join(takewhile(lambda line: line.startswith("--"), lines))
    assert header.startswith("-- memory:" if path.parent.name == "walls" else f"-- memory.{path.stem}")
    assert path.parent.name != "views" or "One row per " in header
