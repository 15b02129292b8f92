"""Add the boat to a booking

Revision ID: 0002harbour
Revises: 0001harbour
Create Date: 2026-05-11 08:00:00+00:00
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002harbour"
down_revision = "0001harbour"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("bookings", sa.Column("boat", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("bookings", "boat")
