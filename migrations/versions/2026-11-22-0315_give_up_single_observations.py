"""Give up single observations instead of scopes, and show contradictions

Frozen: imports nothing of memory_sql.

Revision ID: d08e5b7c42a9
Revises: 5d08e3b6a91f
Create Date: 2026-11-22 03:15:00+00:00
"""

from __future__ import annotations

import re

import sqlalchemy as sa
from alembic import op

revision = "d08e5b7c42a9"
down_revision = "5d08e3b6a91f"
branch_labels = None
depends_on = None

COMMENT, COMMENT_BEFORE = (
    "Not used: single observations are given up, never a scope.",
    "The run with which it was given up; null: it goes on.",
)

V_CONTRADICTIONS = """
-- memory.v_contradictions: what a newer observation says otherwise, as the model that consolidated them named it. One row per
-- contradiction that a version of a scope's text named.
-- older_id: the observation that no longer holds; null where the text before said it. live: false where the version was
-- undone, and the older observation counts again. older_status: what it is now; null where there is none.
CREATE OR REPLACE VIEW memory.v_contradictions AS
SELECT
    a.agent_id,
    c.scope_id,
    s.kind AS scope_kind,
    CASE WHEN s.owner LIKE '_:%' THEN substr(s.owner, 3) END AS owner_id,
    nullif(s.name, '') AS scope_name,
    c.version,
    c.live,
    c.created_at,
    'o' || c.scope_id || '-' || i.newer AS newer_id,
    'o' || c.scope_id || '-' || i.older AS older_id,
    i.was,
    i.now,
    CASE WHEN o.seq IS NOT NULL THEN coalesce(t.status, 'active') END AS older_status,
    c.model,
    c.run_id
FROM memory.consolidations c
JOIN memory.scopes s ON s.agent_key = c.agent_key AND s.scope_id = c.scope_id
JOIN memory.agents a ON a.agent_key = c.agent_key
CROSS JOIN LATERAL jsonb_to_recordset(c.contradictions) AS i (newer integer, older integer, was text, now text)
LEFT JOIN memory.observations o ON o.agent_key = c.agent_key AND o.scope_id = c.scope_id AND o.seq = i.older
LEFT JOIN memory.observation_states t ON t.agent_key = c.agent_key AND t.scope_id = c.scope_id AND t.seq = i.older;

COMMENT ON VIEW memory.v_contradictions IS
    'One row per contradiction that a version of a scope''s text named: what counts, what gave way, in whose words.';
"""

# A scope that was given up had as much pending as made it due; what is bad in it will be found.
GO_ON = """
WITH given_up AS (
    UPDATE memory.scopes s
    SET dead_run_id = NULL, errors = 0, due_at = CASE WHEN s.is_active AND s.consolidate THEN now() END
    FROM memory.runs r
    WHERE r.agent_key = s.agent_key AND r.run_id = s.dead_run_id
    RETURNING r.agent_key, r.run_id
)
UPDATE memory.runs r SET state = 'failed' FROM given_up g WHERE r.agent_key = g.agent_key AND r.run_id = g.run_id
"""

# The release before knows no dead run of a scope that goes on; what was set aside stays so.
SET_ASIDE_FOR_GOOD = "UPDATE memory.runs SET state = 'discarded' WHERE state = 'dead' AND scope_id IS NOT NULL"


def upgrade() -> None:
    op.add_column(
        "scopes",
        sa.Column(
            "suspects",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="That many of the first pending ones hold one of which no model makes anything; 0: not known.",
        ),
        schema="memory",
    )
    op.create_index(
        op.f("runs_dead_idx"),
        "runs",
        ["agent_key", "run_id"],
        schema="memory",
        postgresql_where=sa.text("state = 'dead'"),
    )
    op.execute(GO_ON)
    op.execute(f"COMMENT ON COLUMN memory.scopes.dead_run_id IS '{COMMENT}'")
    run(V_CONTRADICTIONS)


def downgrade() -> None:
    op.execute("DROP VIEW memory.v_contradictions")
    op.execute(f"COMMENT ON COLUMN memory.scopes.dead_run_id IS '{COMMENT_BEFORE}'")
    op.execute(SET_ASIDE_FOR_GOOD)
    op.drop_index(op.f("runs_dead_idx"), "runs", schema="memory")
    op.drop_column("scopes", "suspects", schema="memory")


def run(script: str) -> None:
    """asyncpg prepares one statement at a time; each begins at the start of a line, bodies are indented."""
    for statement in re.split(r";\s*\n(?=(?:CREATE|COMMENT) )", script.strip().removesuffix(";")):
        op.execute(statement)
