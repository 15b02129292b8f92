"""Follow what is forgotten into more places

Frozen once it is released: imports nothing of memory_sql.

Revision ID: c41f8a2e90d6
Revises: a7c39e15d042
Create Date: 2026-12-01 10:00:58+00:00
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from alembic import context, op

revision = "c41f8a2e90d6"
down_revision = "a7c39e15d042"
branch_labels = None
depends_on = None

FOLDER = Path(__file__).with_suffix("")  # the functions and views that it changes, as they are afterwards
LOCK_TIMEOUT = "SET LOCAL lock_timeout = '3s'"
# Row-level security may hold for the owner too, who would then find every table empty.
ENTER = """SELECT set_config('memory.principal',
    extract(epoch FROM transaction_timestamp())::text || ' {"serves_all": true }', true)"""
REFUSE_FILLED = """DO $$ BEGIN
    IF EXISTS (SELECT FROM memory.consolidations WHERE passed_seqs <> '{}') THEN
        RAISE EXCEPTION 'forgetting would leave words in texts that were shown what waits'
        USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = 'If you mean it: alembic -x memory_sql=drop downgrade ...';
    END IF;
END $$"""
COLUMN = sa.Column(
    "passed_seqs",
    sa.ARRAY(sa.Integer()),
    nullable=False,
    server_default=sa.text("'{}'"),
    comment="Observations that it was shown and left waiting; some of their words may be in it.",
)
FIRST = FOLDER.with_name("2026-11-22-1600_first_schema")
CHANGED = (
    "adding/refuse_change.sql",
    "adding/replace_messages.sql",
    "forgetting/forget_closure.sql",
    "forgetting/tainted_versions.sql",
)
NEW = "forgetting/answers_to.sql"
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
    op.add_column("consolidations", COLUMN, schema="memory")
    for name in (NEW, *CHANGED):
        run(FOLDER / name)


@ours()
def downgrade() -> None:
    op.execute(LOCK_TIMEOUT)
    if not may_drop():  # unless nothing is lost
        op.execute(ENTER)
        op.execute(REFUSE_FILLED)
    for name in CHANGED:
        run(FIRST / name)
    op.execute("DROP FUNCTION memory.answers_to(bigint, text[], bigint[])")
    op.drop_column("consolidations", "passed_seqs", schema="memory")


def may_drop() -> bool:
    """As `alembic -x memory_sql=drop` says, or the same in the attributes of a `Config` that is built in Python."""
    said = context.get_x_argument(as_dictionary=True).get("memory_sql"), context.config.attributes.get("memory_sql")
    return "drop" in said


def run(file: Path) -> None:
    """On the way down, of the newest folder before this one that has the file."""
    for statement in statements_of(file.read_text("utf-8")):
        op.execute(sa.text(statement.replace(":", r"\:")))


def statements_of(script: str) -> Iterator[str]:
    """asyncpg prepares one statement at a time; a semicolon in a body, a string or a comment ends none."""
    found = (match[0].strip() for match in STATEMENT.finditer(script))
    return (statement for statement in found if statement)
