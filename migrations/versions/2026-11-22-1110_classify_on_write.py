"""Say what kinds of things an observation tells

Frozen: imports nothing of memory_sql.

Revision ID: 7b12d9e4f063
Revises: 5e0a7c93d1b4
Create Date: 2026-11-22 11:10:00+00:00
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "7b12d9e4f063"
down_revision = "5e0a7c93d1b4"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Without a default: nobody has looked at what is there, and what isn't known counts as personal.
    op.add_column(
        "observations",
        sa.Column(
            "categories",
            postgresql.ARRAY(sa.Text()),
            nullable=True,
            comment="contact, credential, financial …; empty: nothing personal; null: never classified, so personal.",
        ),
        schema="memory",
    )


def downgrade() -> None:
    op.drop_column("observations", "categories", schema="memory")
