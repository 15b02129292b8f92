"""Create the schema

Runs the files of the folder beside it, in the order in which `SHA256SUMS` lists them. Imports nothing of memory_sql.

Revision ID: a7c39e15d042
Revises:
Create Date: 2026-11-22 16:00:00+00:00
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from alembic import context, op

revision = "a7c39e15d042"
down_revision = None
branch_labels = ("memory_sql",)
depends_on = None

FOLDER = Path(__file__).with_suffix("")
SUMS = FOLDER / "SHA256SUMS"
LOCK_TIMEOUT = "SET LOCAL lock_timeout = '3s'"
# Ours makes it beforehand; the Alembic of a host, where we are a branch of its history, doesn't.
CREATE_SCHEMA = """DO $$ BEGIN
    IF to_regnamespace('memory') IS NULL THEN
        CREATE SCHEMA memory;
        COMMENT ON SCHEMA memory IS 'Long-term memory of AI agents (memory_sql).';
    END IF;
END $$"""
# What `Memory` compares when it opens: while this migration is edited, its revision doesn't say what it made.
FINGERPRINT = """CREATE FUNCTION memory.schema_fingerprint() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS 'SELECT ''{}''::text';
COMMENT ON FUNCTION memory.schema_fingerprint() IS 'Which state of the first migration made this schema.';"""
# Row-level security may hold for the owner too, who would then find every table empty.
ENTER = """SELECT set_config('memory.principal',
    extract(epoch FROM transaction_timestamp())::text || ' {"serves_all": true }', true)"""
REFUSE_HELD = """DO $$ BEGIN
    LOCK TABLE memory.agents, memory.holds IN ACCESS EXCLUSIVE MODE;  -- nothing is added between looking and dropping
    IF EXISTS (SELECT FROM memory.holds WHERE released_at IS NULL) THEN
        RAISE EXCEPTION 'legal holds are open: nothing is dropped before they are released'
        USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
END $$"""
REFUSE_FILLED = """DO $$ BEGIN
    IF EXISTS (SELECT FROM memory.agents) THEN
        RAISE EXCEPTION 'this would delete everything that is remembered'
        USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = 'To go back in your own history alone, name your branch (alembic downgrade yours@-1). If you mean it: '
                     'alembic -x memory_sql=drop downgrade ...';
    END IF;
END $$"""
STATEMENT = re.compile(r"(?:[^;$'-]+|\$(\w*)\$.*?\$\1\$|'[^']*'|--[^\n]*|[^;])+", re.DOTALL)


@contextmanager
def ours() -> Iterator[None]:
    """Within it `memory` stands for the schema that MEMORY_SQL_SCHEMA names, also where a host's Alembic runs this."""
    tell = dict if context.is_offline_mode() else op.get_bind().execution_options  # there is no connection to tell
    tell(memory_sql_ours=True)
    try:
        yield
    finally:
        tell(memory_sql_ours=False)


@ours()
def upgrade() -> None:
    op.execute(LOCK_TIMEOUT)
    op.execute(CREATE_SCHEMA)
    sums = SUMS.read_bytes()
    for line in sums.decode().splitlines():
        name = line.split()[1]
        if name != "drop.sql":
            run((FOLDER / name).read_text("utf-8"))
    run(FINGERPRINT.format(hashlib.sha256(sums).hexdigest()[:16]))


@ours()
def downgrade() -> None:
    op.execute(LOCK_TIMEOUT)
    op.execute(ENTER)
    op.execute(REFUSE_HELD)
    if not may_drop():
        op.execute(REFUSE_FILLED)
    op.execute("DROP FUNCTION memory.schema_fingerprint()")
    run((FOLDER / "drop.sql").read_text("utf-8"))


def may_drop() -> bool:
    """As `alembic -x memory_sql=drop` says, or the same in the attributes of a `Config` that is built in Python."""
    said = context.get_x_argument(as_dictionary=True).get("memory_sql"), context.config.attributes.get("memory_sql")
    return "drop" in said


def run(script: str) -> None:
    for statement in statements_of(script):
        op.execute(sa.text(statement.replace(":", r"\:")))


def statements_of(script: str) -> Iterator[str]:
    """asyncpg prepares one statement at a time; a semicolon in a body, a string or a comment ends none."""
    found = (match[0].strip() for match in STATEMENT.finditer(script))
    return (statement for statement in found if statement)
