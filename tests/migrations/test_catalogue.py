"""What the migrated schema says about itself: comments for analysts, names for readers of errors, classes of text."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator

import pytest
from sqlalchemy import ARRAY, CheckConstraint, Column, LargeBinary, Text
from sqlalchemy.dialects.postgresql import JSONB, TSVECTOR

from memory_sql.db.models import Base
from memory_sql.db.roles import erased_columns
from memory_sql.db.vacuum import WITH_TEXT
from tests.conftest import administer, named
from tests.migrations.databases import fetch

WITHOUT_COMMENT = {
    "tables and views": """
        SELECT c.relname FROM pg_class c
        WHERE c.relnamespace = 'memory'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')
          AND c.relname <> 'alembic_version' AND coalesce(obj_description(c.oid, 'pg_class'), '') = ''""",
    "columns of tables and views": """
        SELECT c.relname || '.' || a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relnamespace = 'memory'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm') AND a.attnum > 0
          AND NOT a.attisdropped AND c.relname <> 'alembic_version'
          AND coalesce(col_description(c.oid, a.attnum), '') = ''""",
    "functions": """
        SELECT p.proname FROM pg_proc p
        WHERE p.pronamespace = 'memory'::regnamespace AND coalesce(obj_description(p.oid, 'pg_proc'), '') = ''""",
    "schema": """
        SELECT n.nspname FROM pg_namespace n
        WHERE n.nspname = 'memory' AND coalesce(obj_description(n.oid, 'pg_namespace'), '') = ''""",
}
CONSTRAINTS = """
    SELECT t.relname, c.contype, c.conname,
        ARRAY(SELECT a.attname FROM unnest(c.conkey) WITH ORDINALITY k (attnum, n)
              JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.attnum ORDER BY k.n)
    FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid
    WHERE t.relnamespace = 'memory'::regnamespace AND t.relname <> 'alembic_version'
      AND c.contype IN ('p', 'u', 'f', 'c')"""
INDEXES = """
    SELECT t.relname, i.relname, x.indisunique,
        concat(pg_get_expr(x.indpred, x.indrelid), ' ', pg_get_expr(x.indexprs, x.indrelid)),
        ARRAY(SELECT a.attname FROM unnest(x.indkey::int2[]) WITH ORDINALITY k (attnum, n)
              JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.attnum ORDER BY k.n)
    FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
    WHERE t.relnamespace = 'memory'::regnamespace AND t.relname <> 'alembic_version'
      AND NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conindid = i.oid AND c.contype IN ('p', 'u', 'x'))"""
VIEWS = """
    SELECT relname, obj_description(oid, 'pg_class') FROM pg_class
    WHERE relnamespace = 'memory'::regnamespace AND relkind = 'v'"""
NAMES = {"p": "{table}_pkey", "u": "{table}_{columns}_key", "f": "{table}_{columns}_fkey"}

COLUMNS = [column for table in Base.metadata.sorted_tables for column in table.columns]
CONTAINERS_OF_TEXT = (Text, JSONB, TSVECTOR)


@pytest.fixture(scope="module")
def migrated(server_url: str, template: str) -> Iterator[str]:
    """The URL of a database that nobody writes to."""
    name = f"memory_sql_catalogue_{os.getpid()}"
    asyncio.run(administer(server_url, f"CREATE DATABASE {name} TEMPLATE {template}"))
    yield named(server_url, name)
    asyncio.run(administer(server_url, f"DROP DATABASE {name} WITH (FORCE)"))


def holds_text(column: Column[object]) -> bool:
    kind = column.type.item_type if isinstance(column.type, ARRAY) else column.type
    return isinstance(kind, CONTAINERS_OF_TEXT)


@pytest.mark.parametrize("what", WITHOUT_COMMENT)
async def test_everything_has_a_comment(migrated: str, what: str) -> None:
    assert await fetch(migrated, WITHOUT_COMMENT[what]) == []


async def test_every_view_says_its_grain_in_its_comment(migrated: str) -> None:
    views = await fetch(migrated, VIEWS)
    assert len(views) >= 3
    assert [name for name, comment in views if not comment.startswith("One row per ")] == []


async def test_keys_are_named_by_the_convention(migrated: str) -> None:
    found = [row for row in await fetch(migrated, CONSTRAINTS) if row.contype != b"c"]
    wrong = [
        row.conname
        for row in found
        if row.conname != NAMES[row.contype.decode()].format(table=row.relname, columns="_".join(row[3]))
    ]
    assert found
    assert wrong == []


async def test_checks_are_named_as_in_the_code(migrated: str) -> None:
    found = {row.conname for row in await fetch(migrated, CONSTRAINTS) if row.contype == b"c"}
    ours = [c for table in Base.metadata.sorted_tables for c in table.constraints if isinstance(c, CheckConstraint)]
    assert found == {str(constraint.name) for constraint in ours}
    assert all(re.fullmatch(rf"{c.table.name}_(?!{c.table.name}_)[a-z_]+(?<!_check)_check", str(c.name)) for c in ours)


async def test_indexes_are_named_after_table_and_columns(migrated: str) -> None:
    found = await fetch(migrated, INDEXES)
    wrong = [name for table, name, *rest in found if not index_name_fits(table, name, *rest)]
    assert found
    assert wrong == []


def index_name_fits(table: str, name: str, unique: bool, predicate: str | None, columns: list[str]) -> bool:
    """The agent's key, which leads them all, isn't in the name; a column of the condition or of an expression may be."""
    said = name.removeprefix(f"{table}_").removesuffix("_key" if unique else "_idx")
    return name == f"{table}_{said}_{'key' if unique else 'idx'}" and (
        f"_{said}_" in f"_{'_'.join(columns)}_" or re.search(rf"\b{said}\b", predicate or "") is not None
    )


def test_every_text_column_says_what_forgetting_does_to_it() -> None:
    classes = {str(column): column.info.get("text") for column in COLUMNS if holds_text(column)}
    unclassed = {name.removeprefix("memory.") for name, kind in classes.items() if kind is None}
    assert unclassed == set()
    assert set(classes.values()) - {None} == {"erase", "host_id", "constant"}


def test_vacuum_frees_every_table_that_forgetting_takes_text_from() -> None:
    assert {column.partition(".")[0] for column in erased_columns()} <= set(WITH_TEXT)


def test_only_hashes_are_binary() -> None:
    assert [column.name for column in COLUMNS if isinstance(column.type, LargeBinary)] == [
        "secret_hash", "source_hash", "stored_hash", "ref_hash", "key_hash", "id_hash", "ref_hash", "user_hash",
        "content_hash", "source_hash", "stored_hash", "ref_hash", "content_hash",
    ]  # fmt: skip


def test_planner_keeps_no_text_in_its_statistics(migrated: str) -> None:
    """There it would outlive its row. The words in an index count: their hashes can be guessed."""
    columns = """
        SELECT c.relname || '.' || a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relnamespace = 'memory'::regnamespace AND a.attnum > 0 AND coalesce(a.attstattarget, -1) <> 0"""
    sampled = {name for (name,) in asyncio.run(fetch(migrated, columns))}
    text = {str(column) for column in COLUMNS if holds_text(column) and column.info.get("text") == "erase"}
    assert "runs.kind" in sampled
    assert sampled & text == set()
    assert {name for name in sampled if name.endswith(".search_tokens")} == set()
