"""${message}

Frozen once it is released: imports nothing of memory_sql.

Revision ID: ${up_revision}
Revises: ${down_revision | comma,n}
Create Date: ${create_date}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}

FOLDER = Path(__file__).with_suffix("")  # the functions and views that it changes, as they are afterwards
LOCK_TIMEOUT = "SET LOCAL lock_timeout = '3s'"
STATEMENT = re.compile(r"(?:[^;$'-]+|\$(\w*)\$.*?\$\1\$|'[^']*'|--[^\n]*|[^;])+", re.DOTALL)


def upgrade() -> None:
    op.execute(LOCK_TIMEOUT)
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    op.execute(LOCK_TIMEOUT)
    ${downgrades if downgrades else "pass"}


def run(file: Path) -> None:
    """On the way down, of the newest folder before this one that has the file."""
    for statement in statements_of(file.read_text("utf-8")):
        op.execute(sa.text(statement.replace(":", r"\:")))


def statements_of(script: str) -> Iterator[str]:
    """asyncpg prepares one statement at a time; a semicolon in a body, a string or a comment ends none."""
    found = (match[0].strip() for match in STATEMENT.finditer(script))
    return (statement for statement in found if statement)
