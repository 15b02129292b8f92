"""Create the bookings."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001service"
down_revision = None
branch_labels = ("service",)
depends_on = None


def upgrade() -> None:
    op.create_table(
        "bookings",
        sa.Column("booking_id", sa.Integer, sa.Identity(), primary_key=True),
        sa.Column("customer_id", sa.Text, nullable=False),
        sa.Column("berth", sa.Text, nullable=False),
        sa.UniqueConstraint("berth", name="bookings_berth_key"),
    )


def downgrade() -> None:
    op.drop_table("bookings")
