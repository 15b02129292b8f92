"""The schema's name in SQL: what is translated, what stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from memory_sql.config import Settings
from memory_sql.db import ddl, roles
from memory_sql.db.blocking_cursor import _rewritten
from memory_sql.db.naming import channel, in_schema, quoted
from memory_sql.errors import ConfigurationError

ODD = "Ä \"b' c.d$$e%f:g $1 $x$"
NAME = '"Ä ""b\' c.d$$e%f:g $1 $x$"'
IN_TEXT = NAME.replace("'", "''")


def _files() -> Iterator[tuple[str, str]]:
    for root in (Path(str(files("memory_sql.db") / "sql")), ddl.scripts() / ddl.FIRST_SCHEMA):
        for file in sorted(root.rglob("*.sql")):
            yield f"{root.name}/{file.relative_to(root)}", file.read_text("utf-8")


ALL = dict(_files())


@pytest.mark.parametrize("sql", ALL.values(), ids=ALL)
def test_the_default_name_changes_nothing(sql: str) -> None:
    assert in_schema(sql, "memory") is sql


@pytest.mark.parametrize("sql", ALL.values(), ids=ALL)
def test_no_file_names_the_schema_afterwards(sql: str) -> None:
    """But for comments, and the settings that begin alike."""
    left = re.sub(r"--[^\n]*", "", in_schema(sql, "other"))
    found = re.findall(
        r".*\bmemory\s*\..*|.*'memory'.*|.*SCHEMA memory\b.*|.*pg_catalog, memory\b.*|.*'memory_due'.*", left
    )
    assert [line for line in found if not re.search(r"'memory\.(roles|copying|principal_[0-9a-f]{16})'", line)] == []


@pytest.mark.parametrize("sql", ALL.values(), ids=ALL)
def test_translating_again_changes_nothing(sql: str) -> None:
    once = in_schema(sql, "other")
    assert in_schema(once, "other") == once


@pytest.mark.parametrize(
    ("sql", "translated"),
    [
        ("SELECT memory.enter(NULL)", f"SELECT {NAME}.enter(NULL)"),
        ("SELECT x.memory.y, memory_sql.z, in_memory.a", "SELECT x.memory.y, memory_sql.z, in_memory.a"),
        ("CREATE SCHEMA memory", f"CREATE SCHEMA {NAME}"),
        ("DROP SCHEMA IF EXISTS memory CASCADE", f"DROP SCHEMA IF EXISTS {NAME} CASCADE"),
        ("SET search_path = pg_catalog, memory, pg_temp", f"SET search_path = pg_catalog, {NAME}, pg_temp"),
        ("'memory'::regnamespace", f"'{IN_TEXT}'::regnamespace"),
        ("to_regnamespace('memory')", f"to_regnamespace('{IN_TEXT}')"),
        ("nspname = 'memory'", "nspname = 'Ä \"b'' c.d$$e%f:g $1 $x$'"),
        ("'memory.messages'::regclass", f"'{IN_TEXT}.messages'::regclass"),
        ("to_regclass('memory.' || name)", f"to_regclass('{IN_TEXT}.' || name)"),
        ("format('DROP POLICY %I ON memory.%I', a)", f"format('DROP POLICY %I ON {IN_TEXT.replace('%', '%%')}.%I', a)"),
        ("pg_notify('memory_due', '')", f"pg_notify('{channel(ODD)}', '')"),
        ("'a memory' || 'in_memory' -- memory.x isn't", "'a memory' || 'in_memory' -- memory.x isn't"),
        ('SELECT "memory.x", "a ""memory.y"', 'SELECT "memory.x", "a ""memory.y"'),
        ("SELECT E'it\\'s memory.x'", "SELECT E'it\\'s memory.x'"),
        ("SELECT 'it''s' || memory.x()", f"SELECT 'it''s' || {NAME}.x()"),
        ("current_setting('memory.roles')", "current_setting('memory.roles')"),
        ("set_config('memory.copying', 'on', true)", "set_config('memory.copying', 'on', true)"),
    ],
)
def test_names_are_told_from_other_words(sql: str, translated: str) -> None:
    assert in_schema(sql, ODD) == translated


def test_a_body_has_quotes_that_the_name_does_not_contain() -> None:
    made = in_schema("AS $$ SELECT 'memory.x' || memory.y() $$; SELECT memory.z", ODD)
    assert made == f"AS $_q$ SELECT '{IN_TEXT}.x' || {NAME}.y() $_q$; SELECT {NAME}.z"


def test_principals_of_two_schemas_are_different_settings() -> None:
    one, other = (in_schema("set_config('memory.principal', $1, true)", name) for name in ("one", "other"))
    assert len({one, other, "set_config('memory.principal', $1, true)"}) == 3
    assert re.fullmatch(r"set_config\('memory\.principal_[0-9a-f]{16}', \$1, true\)", one)


def test_channels_are_names_that_postgres_takes() -> None:
    assert channel("memory") == "memory_due"
    assert len(channel("ä" * 31).encode()) <= 63


def test_parameters_are_not_looked_for_in_names() -> None:
    assert _rewritten(in_schema("SELECT memory.x($1, '$1')", ODD)) == (
        f"SELECT {NAME.replace('%', '%%')}.x((%(p1)s), '$1')"
    )


def test_the_script_of_roles_keeps_names_of_roles() -> None:
    named = roles.Roles.of("memory.owner", "app", "analyst")
    made = roles.script(named, schema=ODD)
    assert '"memory.owner"' in made
    assert f"ALTER SCHEMA {IN_TEXT.replace('%', '%%')} OWNER TO %I" in made


@pytest.mark.parametrize(
    "name", ["", "x" * 64, "ä" * 32, "pg_memory", "information_schema", "public", "a\x00b", "a\nb", "\ud800"]
)
def test_names_that_cannot_be_a_schemas_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^settings: schema: .*choose a"):
        Settings(llm="offline", schema=name)


@pytest.mark.parametrize("name", ["memory", "x" * 63, "Tenant", "select", ODD, "a.b", "Public", "tenant-1"])
def test_other_names_are_taken(name: str) -> None:
    assert Settings(llm="offline", schema=name).schema == name


def test_the_environment_names_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_SQL_SCHEMA", "tenant_a")
    assert Settings.load().schema == "tenant_a"


def test_names_are_quoted() -> None:
    assert quoted("memory") == "memory"
    assert quoted("select") == '"select"'
