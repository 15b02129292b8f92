"""Create the schema

Runs the files of the folder beside it, in the order in which `SHA256SUMS` lists them. Edited until the first release
(`make schema` writes the folder), frozen afterwards. Imports nothing of memory_sql.

Revision ID: a7c39e15d042
Revises:
Create Date: 2026-11-22 16:00:00+00:00
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa
from alembic import op

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
STATEMENT = re.compile(r"(?:[^;$'-]+|\$(\w*)\$.*?\$\1\$|'[^']*'|--[^\n]*|[^;])+", re.DOTALL)


def upgrade() -> None:
    op.execute(LOCK_TIMEOUT)
    op.execute(CREATE_SCHEMA)
    sums = SUMS.read_bytes()
    for line in sums.decode().splitlines():
        name = line.split()[1]
        if name != "drop.sql":
            run((FOLDER / name).read_text("utf-8"))
    run(FINGERPRINT.format(hashlib.sha256(sums).hexdigest()[:16]))


def downgrade() -> None:
    op.execute(LOCK_TIMEOUT)
    op.execute("DROP FUNCTION memory.schema_fingerprint()")
    run((FOLDER / "drop.sql").read_text("utf-8"))


def run(script: str) -> None:
    for statement in statements_of(script):
        op.execute(sa.text(statement.replace(":", r"\:")))


def statements_of(script: str) -> Iterator[str]:
    """asyncpg prepares one statement at a time; a semicolon in a body, a string or a comment ends none."""
    found = (match[0].strip() for match in STATEMENT.finditer(script))
    return (statement for statement in found if statement)
