"""Add dates, modes, contradictions and what forgetting counts

Frozen: imports nothing of memory_sql.

Revision ID: 9f2c6e18d5b7
Revises: e7a3b90c1f64
Create Date: 2026-11-22 02:30:00+00:00
"""

from __future__ import annotations

import re

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "9f2c6e18d5b7"
down_revision = "e7a3b90c1f64"
branch_labels = None
depends_on = None


CHECKS = (
    (
        "sessions",
        "due_reason",
        "due_reason IN ('signal', 'messages', 'tokens', 'age', 'cold', 'retry')",
        "due_reason IN ('signal', 'messages', 'tokens', 'cold', 'retry')",
    ),
    (
        "consolidations",
        "reason",
        "reason IN ('threshold', 'asked', 'undo', 'forget', 'quarantine', 'retract', 'merge', 'import')",
        "reason IN ('threshold', 'asked', 'undo', 'forget', 'merge', 'import')",
    ),
)
NEW_CHECKS = (
    ("scopes", "extraction_mode", "extraction_mode IN ('batch', 'isolated')"),
    ("observation_states", "verification", "verification IN ('unverified', 'confirmed', 'disputed')"),
    ("observation_states", "superseded_by", "superseded_by IS NULL OR status = 'superseded'"),
    ("consolidations", "live_until", "live = (live_until IS NULL)"),
)
COMMENTS = (
    (
        "sessions.due_reason",
        "signal, messages, tokens, age, cold or retry.",
        "signal, messages, tokens, cold or retry.",
    ),
    (
        "consolidations.reason",
        "threshold, asked, undo, forget, quarantine, retract, merge or import.",
        "threshold, asked, undo, forget, merge or import.",
    ),
)

# The view listed every column of the table through the function, so that the table couldn't gain or lose one.
PENDING_OBSERVATIONS = """
-- memory.pending_observations(agent_key, scope_id, done_seq): the active observations that no live version has absorbed.
-- One row per observation. Two arms, so that each is a range of an index: what came after the watermark, and what was
-- passed over by it. The columns are named, not the table's row: what depends on them doesn't depend on its other columns.
CREATE OR REPLACE FUNCTION memory.pending_observations(p_agent bigint, p_scope bigint, p_done integer)
RETURNS TABLE (seq integer, content text, observed_at timestamptz, created_at timestamptz)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT o.seq, o.content, o.observed_at, o.created_at
    FROM memory.observations o
    WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.seq > p_done AND o.lane = 'absorb'
      AND NOT EXISTS (
          SELECT FROM memory.observation_states t
          WHERE t.agent_key = p_agent AND t.scope_id = p_scope AND t.seq = o.seq AND t.status <> 'active'
      )
    UNION ALL
    SELECT o.seq, o.content, o.observed_at, o.created_at
    FROM memory.observation_states t
    JOIN memory.observations o ON o.agent_key = t.agent_key AND o.scope_id = t.scope_id AND o.seq = t.seq
    WHERE t.agent_key = p_agent AND t.scope_id = p_scope AND t.seq <= p_done AND t.repend AND t.status = 'active'
      AND o.lane = 'absorb'
$$;

COMMENT ON FUNCTION memory.pending_observations(bigint, bigint, integer) IS
    'The observations of a scope that wait for its next consolidation; one row per observation.';
"""

PENDING_OBSERVATIONS_BEFORE = """
-- memory.pending_observations(agent_key, scope_id, done_seq): the active observations that no live version has absorbed.
-- One row per observation. Two arms, so that each is a range of an index: what came after the watermark, and what was
-- passed over by it.
CREATE OR REPLACE FUNCTION memory.pending_observations(p_agent bigint, p_scope bigint, p_done integer)
RETURNS SETOF memory.observations
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT o.*
    FROM memory.observations o
    WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.seq > p_done AND o.lane = 'absorb'
      AND NOT EXISTS (
          SELECT FROM memory.observation_states t
          WHERE t.agent_key = p_agent AND t.scope_id = p_scope AND t.seq = o.seq AND t.status <> 'active'
      )
    UNION ALL
    SELECT o.*
    FROM memory.observation_states t
    JOIN memory.observations o ON o.agent_key = t.agent_key AND o.scope_id = t.scope_id AND o.seq = t.seq
    WHERE t.agent_key = p_agent AND t.scope_id = p_scope AND t.seq <= p_done AND t.repend AND t.status = 'active'
      AND o.lane = 'absorb'
$$;

COMMENT ON FUNCTION memory.pending_observations(bigint, bigint, integer) IS
    'The observations of a scope that wait for its next consolidation; one row per observation.';
"""

V_PENDING = """
-- memory.v_pending: the backlog. One row per scope that has pending observations.
-- oldest_at: when the longest-waiting one was stored; due_at: from when a consolidation is due, null below the threshold.
CREATE OR REPLACE VIEW memory.v_pending AS
SELECT
    a.agent_id,
    s.scope_id,
    s.kind AS scope_kind,
    CASE WHEN s.owner LIKE '_:%' THEN substr(s.owner, 3) END AS owner_id,
    nullif(s.name, '') AS scope_name,
    p.pending,
    p.oldest_at,
    now() - p.oldest_at AS oldest_age,
    s.due_at,
    coalesce(s.lease_until > clock_timestamp(), false) AS in_progress,
    s.version,
    s.consolidated_at
FROM memory.scopes s
JOIN memory.agents a ON a.agent_key = s.agent_key
CROSS JOIN LATERAL (
    SELECT count(*) AS pending, min(o.created_at) AS oldest_at
    FROM memory.pending_observations(s.agent_key, s.scope_id, s.done_seq) o
) p
WHERE p.pending > 0;

COMMENT ON VIEW memory.v_pending IS 'One row per scope with observations that wait for a consolidation.';
"""


def upgrade() -> None:
    drop_pending()
    op.add_column(
        "agents",
        sa.Column(
            "settings",
            postgresql.JSONB(),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
            comment="Settings that differ from the service's, by name.",
        ),
        schema="memory",
    )
    op.add_column(
        "consolidations",
        sa.Column(
            "live_until",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When it was undone or overtaken; null: it is live.",
        ),
        schema="memory",
    )
    op.add_column(
        "consolidations",
        sa.Column(
            "contradictions",
            postgresql.JSONB(),
            server_default=sa.text("'[]'::jsonb"),
            nullable=False,
            comment="What contradicted what: newer, older (seq; null: the text before), was, now.",
        ),
        schema="memory",
    )
    op.add_column(
        "observation_states",
        sa.Column(
            "superseded_by",
            sa.Integer(),
            nullable=True,
            comment="The observation of the same scope that took its place.",
        ),
        schema="memory",
    )
    op.add_column(
        "observation_states",
        sa.Column(
            "verification",
            sa.Text(),
            server_default=sa.text("'unverified'"),
            nullable=False,
            comment="unverified, confirmed or disputed.",
        ),
        schema="memory",
    )
    op.add_column(
        "observations",
        sa.Column(
            "dates",
            postgresql.DATEMULTIRANGE(),
            nullable=True,
            comment="The calendar days that its text speaks of; null: none.",
        ),
        schema="memory",
    )
    op.add_column(
        "observations",
        sa.Column(
            "fact_key",
            sa.Text(),
            nullable=True,
            comment="The host's name of the fact that it states; a newer one replaces it.",
        ),
        schema="memory",
    )
    op.add_column(
        "runs",
        sa.Column(
            "calls",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Calls of the model that it took.",
        ),
        schema="memory",
    )
    op.add_column(
        "runs",
        sa.Column(
            "forgotten",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Of its observations: forgotten since.",
        ),
        schema="memory",
    )
    op.add_column(
        "scopes",
        sa.Column(
            "extraction_mode",
            sa.Text(),
            server_default=sa.text("'batch'"),
            nullable=False,
            comment="batch: one model call with other scopes; isolated: one of its own.",
        ),
        schema="memory",
    )
    op.add_column(
        "sessions",
        sa.Column(
            "time_zone",
            sa.Text(),
            nullable=True,
            comment="Where its calendar days begin (IANA name); null: the default.",
        ),
        schema="memory",
    )
    op.add_column(
        "sessions",
        sa.Column(
            "unformed_since",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When the oldest message arrived that no formation has read.",
        ),
        schema="memory",
    )
    op.execute("UPDATE memory.consolidations SET live_until = clock_timestamp() WHERE NOT live")
    op.execute(
        "UPDATE memory.sessions s SET unformed_since = (SELECT min(m.created_at) FROM memory.messages m"
        " WHERE m.agent_key = s.agent_key AND m.session_id = s.session_id AND m.number > s.formed_number AND m.eligible)"
        " WHERE s.unformed_messages > 0"
    )
    for table, name, check in NEW_CHECKS:
        op.create_check_constraint(op.f(f"{table}_{name}_check"), table, check, schema="memory")
    for table, name, check, _ in CHECKS:
        replace_check(table, name, check)
    for column, comment, _ in COMMENTS:
        op.execute(f"COMMENT ON COLUMN memory.{column} IS '{comment}'")
    run(PENDING_OBSERVATIONS)
    run(V_PENDING)


def downgrade() -> None:
    drop_pending()
    op.execute("UPDATE memory.sessions SET due_reason = 'cold' WHERE due_reason = 'age'")
    op.execute("UPDATE memory.consolidations SET reason = 'undo' WHERE reason IN ('quarantine', 'retract')")
    for column, _, comment in COMMENTS:
        op.execute(f"COMMENT ON COLUMN memory.{column} IS '{comment}'")
    for table, name, _, check in CHECKS:
        replace_check(table, name, check)
    for table, name, _ in NEW_CHECKS:
        op.drop_constraint(op.f(f"{table}_{name}_check"), table, schema="memory")
    op.drop_column("sessions", "unformed_since", schema="memory")
    op.drop_column("sessions", "time_zone", schema="memory")
    op.drop_column("scopes", "extraction_mode", schema="memory")
    op.drop_column("runs", "forgotten", schema="memory")
    op.drop_column("runs", "calls", schema="memory")
    op.drop_column("observations", "fact_key", schema="memory")
    op.drop_column("observations", "dates", schema="memory")
    op.drop_column("observation_states", "verification", schema="memory")
    op.drop_column("observation_states", "superseded_by", schema="memory")
    op.drop_column("consolidations", "contradictions", schema="memory")
    op.drop_column("consolidations", "live_until", schema="memory")
    op.drop_column("agents", "settings", schema="memory")
    run(PENDING_OBSERVATIONS_BEFORE)
    run(V_PENDING)


def replace_check(table: str, name: str, check: str) -> None:
    op.drop_constraint(op.f(f"{table}_{name}_check"), table, schema="memory")
    op.create_check_constraint(op.f(f"{table}_{name}_check"), table, check, schema="memory")


def drop_pending() -> None:
    op.execute("DROP VIEW memory.v_pending")
    op.execute("DROP FUNCTION memory.pending_observations(bigint, bigint, integer)")


def run(script: str) -> None:
    """asyncpg prepares one statement at a time; each begins at the start of a line, bodies are indented."""
    for statement in re.split(r";\s*\n(?=(?:CREATE|COMMENT) )", script.strip().removesuffix(";")):
        op.execute(statement)
