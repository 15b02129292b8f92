"""Create what forgetting and correcting need: events, holds, user aliases, lineage

Frozen: imports nothing of memory_sql.

Revision ID: 3b91d7f0a4c2
Revises: 9f2c6e18d5b7
Create Date: 2026-11-22 02:31:00+00:00
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "3b91d7f0a4c2"
down_revision = "9f2c6e18d5b7"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column("agent_key", sa.BigInteger(), nullable=False, comment="The agent."),
        sa.Column("event_id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="Our own key."),
        sa.Column(
            "kind",
            sa.Text(),
            nullable=False,
            comment="status, verification, privacy, correction, forget, hold, alias, rename, undo …",
        ),
        sa.Column("actor", sa.Text(), nullable=True, comment="Who did it, as the host said; null: a rule of ours."),
        sa.Column("reason", sa.Text(), nullable=True, comment="Why, in the words of who did it."),
        sa.Column("scope_id", sa.BigInteger(), nullable=True, comment="The scope, which may be gone."),
        sa.Column("seq", sa.Integer(), nullable=True, comment="The observation, which may be gone."),
        sa.Column("version", sa.Integer(), nullable=True, comment="The version of the scope's text."),
        sa.Column("session_id", sa.Text(), nullable=True, comment="The session, which may be gone."),
        sa.Column("run_id", sa.BigInteger(), nullable=True, comment="The run, which may be gone."),
        sa.Column(
            "detail",
            postgresql.JSONB(),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
            comment="Ids, words of ours and counts, by name.",
        ),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False, comment="When."
        ),
        sa.ForeignKeyConstraint(["agent_key"], ["memory.agents.agent_key"], name=op.f("events_agent_key_fkey")),
        sa.PrimaryKeyConstraint("agent_key", "event_id", name=op.f("events_pkey")),
        schema="memory",
        comment="One row per change by a person, a rule or a run; it outlives its subject and holds no text of it.",
    )
    op.create_index("events_created_at_idx", "events", ["agent_key", "created_at"], unique=False, schema="memory")
    op.create_index(
        "events_seq_idx",
        "events",
        ["agent_key", "scope_id", "seq"],
        unique=False,
        schema="memory",
        postgresql_where=sa.text("seq IS NOT NULL"),
    )
    op.create_table(
        "holds",
        sa.Column("agent_key", sa.BigInteger(), nullable=False, comment="The agent."),
        sa.Column("hold_id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="Our own key."),
        sa.Column(
            "kind",
            sa.Text(),
            nullable=False,
            comment="What it covers: an observation, or all of a user, session or group.",
        ),
        sa.Column("target", sa.Text(), nullable=False, comment="The id of that."),
        sa.Column("actor", sa.Text(), nullable=True, comment="Who asked for it."),
        sa.Column("reason", sa.Text(), nullable=True, comment="Why, in the words of who asked for it."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Since when.",
        ),
        sa.Column("released_at", sa.DateTime(timezone=True), nullable=True, comment="Until when; null: still."),
        sa.CheckConstraint("kind IN ('observation', 'user', 'session', 'group')", name=op.f("holds_kind_check")),
        sa.ForeignKeyConstraint(["agent_key"], ["memory.agents.agent_key"], name=op.f("holds_agent_key_fkey")),
        sa.PrimaryKeyConstraint("agent_key", "hold_id", name=op.f("holds_pkey")),
        schema="memory",
        comment="One row per legal hold: while it is open, what it covers can't be forgotten.",
    )
    op.create_index(
        "holds_target_key",
        "holds",
        ["agent_key", "kind", "target"],
        unique=True,
        schema="memory",
        postgresql_where=sa.text("released_at IS NULL"),
    )
    op.create_table(
        "user_aliases",
        sa.Column("agent_key", sa.BigInteger(), nullable=False, comment="The agent."),
        sa.Column("user_id", sa.Text(), nullable=False, comment="The id that stands for another."),
        sa.Column(
            "into_user_id", sa.Text(), nullable=False, comment="The user for whom it stands, and who sees what is its."
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Since when.",
        ),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True, comment="Until when; null: still."),
        sa.CheckConstraint("ended_at >= created_at", name=op.f("user_aliases_ended_at_check")),
        sa.CheckConstraint("user_id <> into_user_id", name=op.f("user_aliases_into_user_id_check")),
        sa.ForeignKeyConstraint(["agent_key"], ["memory.agents.agent_key"], name=op.f("user_aliases_agent_key_fkey")),
        sa.PrimaryKeyConstraint("agent_key", "user_id", "created_at", name=op.f("user_aliases_pkey")),
        schema="memory",
        comment="One row per time that a user's id stood for another user: who was anonymous, then logged in.",
    )
    op.create_index(
        "user_aliases_into_user_id_idx",
        "user_aliases",
        ["agent_key", "into_user_id"],
        unique=False,
        schema="memory",
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index(
        "user_aliases_user_id_key",
        "user_aliases",
        ["agent_key", "user_id"],
        unique=True,
        schema="memory",
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_table(
        "lineage",
        sa.Column("agent_key", sa.BigInteger(), nullable=False, comment="The agent."),
        sa.Column("scope_id", sa.BigInteger(), nullable=False, comment="The scope of the observation that was made."),
        sa.Column("seq", sa.Integer(), nullable=False, comment="The observation that was made."),
        sa.Column(
            "source_scope_id",
            sa.BigInteger(),
            nullable=False,
            comment="The scope of the observation that it was made of.",
        ),
        sa.Column("source_seq", sa.Integer(), nullable=False, comment="The observation that it was made of."),
        sa.Column("run_id", sa.BigInteger(), nullable=True, comment="The run that made it."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it was made.",
        ),
        sa.CheckConstraint("scope_id <> source_scope_id", name=op.f("lineage_source_scope_id_check")),
        sa.ForeignKeyConstraint(
            ["agent_key", "run_id"],
            ["memory.runs.agent_key", "memory.runs.run_id"],
            name=op.f("lineage_agent_key_run_id_fkey"),
        ),
        sa.ForeignKeyConstraint(
            ["agent_key", "scope_id", "seq"],
            ["memory.observations.agent_key", "memory.observations.scope_id", "memory.observations.seq"],
            name=op.f("lineage_agent_key_scope_id_seq_fkey"),
        ),
        sa.ForeignKeyConstraint(
            ["agent_key", "source_scope_id", "source_seq"],
            ["memory.observations.agent_key", "memory.observations.scope_id", "memory.observations.seq"],
            name=op.f("lineage_agent_key_source_scope_id_source_seq_fkey"),
        ),
        sa.PrimaryKeyConstraint(
            "agent_key", "scope_id", "seq", "source_scope_id", "source_seq", name=op.f("lineage_pkey")
        ),
        schema="memory",
        comment="One row per observation that another one, of a wider scope, was made of.",
    )
    op.create_index(
        "lineage_source_seq_idx",
        "lineage",
        ["agent_key", "source_scope_id", "source_seq"],
        unique=False,
        schema="memory",
    )


def downgrade() -> None:
    for table in ("lineage", "user_aliases", "holds", "events"):
        op.drop_table(table, schema="memory")
