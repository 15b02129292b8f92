"""Add corrections: the database refuses to make private what has spread; indexes on what a correction looks up

Frozen: imports nothing of memory_sql.

Revision ID: c4e7a91b5d20
Revises: 5d20c7e8b316
Create Date: 2026-11-22 03:30:00+00:00
"""

from __future__ import annotations

import re

import sqlalchemy as sa
from alembic import op

revision = "c4e7a91b5d20"
down_revision = "5d20c7e8b316"
branch_labels = None
depends_on = None

GUARD_PRIVACY = r"""
-- memory.guard_privacy(): trigger. What others were made of can't be made more private while they are there: its text
-- would go on being told in the scopes to which it has spread. `Memory.mark` takes them out first.
CREATE OR REPLACE FUNCTION memory.guard_privacy() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF EXISTS (
        SELECT FROM memory.lineage l
        WHERE l.agent_key = NEW.agent_key AND l.source_scope_id = NEW.scope_id AND l.source_seq = NEW.seq
    ) THEN
        RAISE EXCEPTION 'observation o%-% has spread; what was made of it has to be taken out first', NEW.scope_id, NEW.seq
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END
$$;

COMMENT ON FUNCTION memory.guard_privacy() IS 'Keeps what is private from living on in what was made of it.';

CREATE OR REPLACE TRIGGER observations_guard_privacy
BEFORE UPDATE OF no_propagate, confidential, sensitivity ON memory.observations
FOR EACH ROW WHEN (
    (NEW.no_propagate AND NOT OLD.no_propagate) OR (NEW.confidential AND NOT OLD.confidential)
    OR array_position('{public,private,sensitive}'::text[], NEW.sensitivity)
        > array_position('{public,private,sensitive}'::text[], OLD.sensitivity)
)
EXECUTE FUNCTION memory.guard_privacy();
"""

# Each with its table, columns and condition.
INDEXES = (
    ("observations_fact_key_idx", "observations", "fact_key", "fact_key IS NOT NULL"),
    ("observation_states_superseded_by_idx", "observation_states", "superseded_by", "superseded_by IS NOT NULL"),
    ("observation_states_status_idx", "observation_states", "seq", "status = 'quarantined'"),
    ("observation_states_verification_idx", "observation_states", "seq", "verification = 'disputed'"),
)


def upgrade() -> None:
    for name, table, column, condition in INDEXES:
        op.create_index(
            name, table, ["agent_key", "scope_id", column], schema="memory", postgresql_where=sa.text(condition)
        )
    run(GUARD_PRIVACY)


def downgrade() -> None:
    op.execute("DROP TRIGGER observations_guard_privacy ON memory.observations")
    op.execute("DROP FUNCTION memory.guard_privacy()")
    for name, table, _, _ in reversed(INDEXES):
        op.drop_index(name, table_name=table, schema="memory")


def run(script: str) -> None:
    """asyncpg prepares one statement at a time; each begins at the start of a line, bodies are indented."""
    for statement in re.split(r";\s*\n(?=(?:CREATE|COMMENT) )", script.strip().removesuffix(";")):
        op.execute(statement)
