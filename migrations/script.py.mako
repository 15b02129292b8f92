"""${message}

Frozen once it is released: imports nothing of memory_sql.

Revision ID: ${up_revision}
Revises: ${down_revision | comma,n}
Create Date: ${create_date}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from alembic import context, op
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}

FOLDER = Path(__file__).with_suffix("")  # the functions and views that it changes, as they are afterwards
LOCK_TIMEOUT = "SET LOCAL lock_timeout = '3s'"
# Row-level security may hold for the owner too, who would then find every table empty.
ENTER = """SELECT set_config('memory.principal',
    extract(epoch FROM transaction_timestamp())::text || ' {"serves_all": true }', true)"""
REFUSE_FILLED = """DO $$ BEGIN
    IF EXISTS (SELECT FROM memory.agents) THEN
        RAISE EXCEPTION 'what the older schema can''t store would be lost'
        USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = 'If you mean it: alembic -x memory_sql=drop downgrade ...';
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
    ${upgrades if upgrades else "pass"}


@ours()
def downgrade() -> None:
    op.execute(LOCK_TIMEOUT)
    if not may_drop():  # unless nothing is lost
        op.execute(ENTER)
        op.execute(REFUSE_FILLED)
    ${downgrades if downgrades else "pass"}


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
