"""Create customers and bookings

Revision ID: 0001harbour
Revises:
Create Date: 2026-05-04 08:00:00+00:00
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001harbour"
down_revision = None
branch_labels = ("harbour",)  # so that `harbour@head` names our line where there are two
depends_on = None


def upgrade() -> None:
    op.create_table(
        "customers",
        sa.Column("customer_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("customer_id"),
    )
    op.create_table(
        "bookings",
        sa.Column("booking_id", sa.Integer(), sa.Identity(), nullable=False),
        sa.Column("customer_id", sa.Text(), nullable=False),
        sa.Column("berth", sa.Text(), nullable=False),
        sa.Column("night", sa.Date(), nullable=False),
        sa.ForeignKeyConstraint(["customer_id"], ["customers.customer_id"], name="bookings_customer_id_fkey"),
        sa.PrimaryKeyConstraint("booking_id"),
        sa.UniqueConstraint("berth", "night", name="bookings_berth_night_key"),
    )


def downgrade() -> None:
    op.drop_table("bookings")
    op.drop_table("customers")
