"""Writes the folder of the first migration from what the code says now: `make schema`.

Only until the first release. Afterwards that folder is frozen (`release.py`), and a later migration brings the files that
it changes.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

from sqlalchemy import make_url
from sqlalchemy.schema import CreateIndex, CreateTable, DDLElement, SetColumnComment, SetTableComment

from memory_sql.db import ddl
from memory_sql.db.models import Base
from migrations import release

FOLDER = ddl.scripts() / ddl.FIRST_SCHEMA
DROP = "drop.sql"
_HEADER = "-- {}\n\n"
_DIALECT = make_url("postgresql+asyncpg://").get_dialect()()
_NO_POLICIES = """DO $$
DECLARE
    v_policy record;
BEGIN
    FOR v_policy IN SELECT policyname, tablename FROM pg_policies WHERE schemaname = 'memory' LOOP
        EXECUTE format('DROP POLICY %I ON memory.%I', v_policy.policyname, v_policy.tablename);
    END LOOP;
END
$$;"""
_MADE = {
    "VIEW": re.compile(r"^CREATE OR REPLACE VIEW (memory\.\w+)", re.MULTILINE),
    "TRIGGER": re.compile(r"^CREATE OR REPLACE TRIGGER (\w+)\s[^;]*?(ON memory\.\w+)", re.MULTILINE),
    "FUNCTION": re.compile(r"^CREATE OR REPLACE FUNCTION (memory\.\w+)", re.MULTILINE),
    "TABLE": re.compile(r"^CREATE TABLE (memory\.\w+)", re.MULTILINE),
}


def contents() -> dict[str, str]:
    """The text of each file by its name, in the order in which they are run; last what is no part of an upgrade."""
    before = {f"{name}.sql": ddl.script(name) for name in ddl.BEFORE_TABLES}
    after = {f"{name}.sql": ddl.script(name) for name in ddl.AFTER_TABLES}
    run = {**before, "tables.sql": tables(), **after, DROP: drop(list(before.values()), list(after.values()))}
    return {**run, ddl.FINGERPRINTED: sums(run)}


def tables() -> str:
    """Tables, indexes and comments, as SQLAlchemy makes them of the metadata."""
    return _HEADER.format("The tables of `db/models`.") + "".join(map(_text, _table_elements())).lstrip("\n")


def _table_elements() -> Iterator[DDLElement]:
    for table in Base.metadata.sorted_tables:
        yield CreateTable(table)
        yield from (CreateIndex(index) for index in sorted(table.indexes, key=lambda index: str(index.name)))
        yield SetTableComment(table)
        yield from (SetColumnComment(column) for column in table.columns)


def _text(element: DDLElement) -> str:
    """With an empty line before each table."""
    lines = str(element.compile(dialect=_DIALECT)).replace("\t", "    ").strip().splitlines()
    space = "\n" if isinstance(element, CreateTable) else ""
    return space + "\n".join(line.rstrip() for line in lines) + ";\n"


def drop(before: list[str], after: list[str]) -> str:
    """The way back, in an order in which nothing hangs on what is dropped, and nothing of a host's is taken along."""
    made = {kind: _made(kind, after)[::-1] for kind in _MADE}
    tables = [table.fullname for table in reversed(Base.metadata.sorted_tables)]
    lines = [
        *_dropping("VIEW", made["VIEW"]),
        _NO_POLICIES,
        *(f"DROP TRIGGER {name};" for name in made["TRIGGER"]),  # one at a time
        *_dropping("FUNCTION", made["FUNCTION"]),
        *_dropping("TABLE", made["TABLE"] + tables),
        *_dropping("FUNCTION", _made("FUNCTION", before)[::-1]),
    ]
    return _HEADER.format("The way back.") + "\n".join(lines) + "\n"


def _dropping(kind: str, names: list[str]) -> list[str]:
    return wrap(f"DROP {kind} {', '.join(names)};", 120, subsequent_indent="    ") if names else []


def _made(kind: str, scripts: list[str]) -> list[str]:
    return [" ".join(found.groups()) for script in scripts for found in _MADE[kind].finditer(script)]


def sums(texts: dict[str, str]) -> str:
    """As sha256sum writes them."""
    return "".join(f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n" for name, text in texts.items())


def stored() -> dict[str, str]:
    """What `contents` returned when the folder was written."""
    names = [line.partition("  ")[2] for line in (FOLDER / ddl.FINGERPRINTED).read_text("utf-8").splitlines()]
    return {name: (FOLDER / name).read_text("utf-8") for name in [*names, ddl.FINGERPRINTED]}


def is_frozen() -> bool:
    return any(name.startswith(f"{FOLDER.name}/") for name in release.released())


def write(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in contents().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


if __name__ == "__main__":
    if is_frozen():
        raise SystemExit("the first migration is released; write another: CONTRIBUTING.md, Migrations")
    write(FOLDER)
