"""Count retrievals: how often memory was asked, and whether it answered

Frozen: imports nothing of memory_sql.

Revision ID: b61d3f08a2c7
Revises: 9b6e1d4c70fa
Create Date: 2026-11-22 06:15:00+00:00
"""

from __future__ import annotations

import re

import sqlalchemy as sa
from alembic import op

revision = "b61d3f08a2c7"
down_revision = "9b6e1d4c70fa"
branch_labels = None
depends_on = None

ERASE_AGENT = """
-- memory.erase_agent(agent_key): takes out everything of an agent but its id and the events, and counts it. One row per
-- table. The caller has locked the agent's row. Runs as its owner, as memory.erase does.
CREATE OR REPLACE FUNCTION memory.erase_agent(p_agent bigint) RETURNS TABLE (what text, counted bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
AS $$
BEGIN
    PERFORM FROM memory.agents a WHERE a.agent_key = p_agent FOR KEY SHARE;  -- which a user may not
    IF NOT FOUND THEN  -- behind walls, where nobody has named the principal: better an error than nothing erased
        RAISE EXCEPTION 'this transaction does not work for agent %', p_agent USING ERRCODE = 'insufficient_privilege';
    END IF;

    FOREACH what IN ARRAY ARRAY[
        'lineage', 'evidence', 'observation_states', 'observations', 'consolidations', 'members', 'user_aliases',
        'runs', 'messages', 'sessions', 'scopes', 'holds', 'retrievals'
    ] LOOP
        EXECUTE format('DELETE FROM memory.%I WHERE agent_key = $1', what) USING p_agent;
        GET DIAGNOSTICS counted = ROW_COUNT;
        RETURN NEXT;
    END LOOP;
    UPDATE memory.agents SET settings = '{}' WHERE agent_key = p_agent;
    UPDATE memory.events SET reason = NULL WHERE agent_key = p_agent;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.erase_agent(bigint) FROM PUBLIC;

COMMENT ON FUNCTION memory.erase_agent(bigint) IS 'Takes out everything of an agent, and counts it; one row per table.';
"""

V_RETRIEVAL = """
-- memory.v_retrieval: how often memory was asked, and whether it answered. One row per agent and day (UTC) on which somebody
-- asked; what was counted last may be missing for a minute. queries: contexts that were asked for with a message, and
-- searches. fired_share: of the contexts in which the rule decided, the share in which it retrieved; null where it never
-- decided. without_hit_share: of the queries that searched, the share in which nothing was found. mean_ms, slowest_ms:
-- milliseconds that searching took. The last three are null where nothing was searched.
CREATE OR REPLACE VIEW memory.v_retrieval WITH (security_invoker = true) AS
SELECT
    a.agent_id,
    r.day,
    sum(r.queries)::bigint AS queries,
    sum(r.queries) FILTER (WHERE r.reason NOT IN ('asked', 'none'))
        / nullif(sum(r.queries) FILTER (WHERE r.reason <> 'asked'), 0) AS fired_share,
    sum(r.without_hit) FILTER (WHERE r.reason <> 'none')
        / nullif(sum(r.queries) FILTER (WHERE r.reason <> 'none'), 0) AS without_hit_share,
    1000 * sum(r.seconds) FILTER (WHERE r.reason <> 'none')
        / nullif(sum(r.queries) FILTER (WHERE r.reason <> 'none'), 0)::double precision AS mean_ms,
    1000 * max(r.slowest_seconds) FILTER (WHERE r.reason <> 'none') AS slowest_ms
FROM memory.retrievals r
JOIN memory.agents a ON a.agent_key = r.agent_key
GROUP BY 1, 2;

COMMENT ON VIEW memory.v_retrieval IS
    'One row per agent and day (UTC): queries, how often the rule fired, found nothing, mean and slowest milliseconds.';
"""

POLICIES = """
-- memory: the walls, row-level policies on every table that holds memory. Nobody who hasn't said on whose behalf the
-- transaction works (memory.enter) sees or writes a row. The library's own work reaches the rows of its agent, or of all; a
-- user only reads: what lies in the scopes that memory.visible_scopes names, the sessions that they took part in, nothing of
-- runs, events, holds and retrievals. Each (SELECT …) is computed once a query, not once a row. The owner of the tables passes, until
-- `memory-sql db roles` forces the policies on it as well: a host with one role runs without walls.

ALTER TABLE memory.agents ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.agents USING (
    (SELECT memory.serves_all()) OR agent_id = (SELECT memory.principal() ->> 'serves')
);
CREATE POLICY users ON memory.agents FOR SELECT USING (agent_id = (SELECT memory.principal() ->> 'agent'));

ALTER TABLE memory.scopes ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.scopes USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.scopes FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);

ALTER TABLE memory.members ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.members USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.members FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);

ALTER TABLE memory.observations ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.observations USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.observations FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);

ALTER TABLE memory.observation_states ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.observation_states USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.observation_states FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);

ALTER TABLE memory.consolidations ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.consolidations USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.consolidations FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);

ALTER TABLE memory.evidence ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.evidence USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.evidence FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);

ALTER TABLE memory.lineage ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.lineage USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.lineage FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
    AND source_scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);

ALTER TABLE memory.sessions ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.sessions USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.sessions FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND participants && (SELECT memory.my_user_ids())
);

ALTER TABLE memory.messages ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.messages USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.messages FOR SELECT USING (
    EXISTS (  -- of the sessions that the user may see, as in memory.visible_sessions: their policy is asked here as well
        SELECT
        FROM memory.sessions s
        WHERE s.agent_key = messages.agent_key AND s.session_id = messages.session_id AND NOT s.excluded
    )
);

ALTER TABLE memory.runs ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.runs USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);

ALTER TABLE memory.events ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.events USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);

ALTER TABLE memory.holds ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.holds USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);

ALTER TABLE memory.user_aliases ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.user_aliases USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.user_aliases FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND into_user_id = ANY ((SELECT memory.my_user_ids())::text[])
);

ALTER TABLE memory.retrievals ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.retrievals USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
"""

ERASE_AGENT_BEFORE = """
-- memory.erase_agent(agent_key): takes out everything of an agent but its id and the events, and counts it. One row per
-- table. The caller has locked the agent's row. Runs as its owner, as memory.erase does.
CREATE OR REPLACE FUNCTION memory.erase_agent(p_agent bigint) RETURNS TABLE (what text, counted bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
AS $$
BEGIN
    PERFORM FROM memory.agents a WHERE a.agent_key = p_agent FOR KEY SHARE;  -- which a user may not
    IF NOT FOUND THEN  -- behind walls, where nobody has named the principal: better an error than nothing erased
        RAISE EXCEPTION 'this transaction does not work for agent %', p_agent USING ERRCODE = 'insufficient_privilege';
    END IF;

    FOREACH what IN ARRAY ARRAY[
        'lineage', 'evidence', 'observation_states', 'observations', 'consolidations', 'members', 'user_aliases',
        'runs', 'messages', 'sessions', 'scopes', 'holds'
    ] LOOP
        EXECUTE format('DELETE FROM memory.%I WHERE agent_key = $1', what) USING p_agent;
        GET DIAGNOSTICS counted = ROW_COUNT;
        RETURN NEXT;
    END LOOP;
    UPDATE memory.agents SET settings = '{}' WHERE agent_key = p_agent;
    UPDATE memory.events SET reason = NULL WHERE agent_key = p_agent;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.erase_agent(bigint) FROM PUBLIC;

COMMENT ON FUNCTION memory.erase_agent(bigint) IS 'Takes out everything of an agent, and counts it; one row per table.';
"""


def upgrade() -> None:
    op.create_table(
        "retrievals",
        sa.Column("agent_key", sa.BigInteger(), nullable=False, comment="The agent."),
        sa.Column("day", sa.Date(), nullable=False, comment="The day in UTC."),
        sa.Column("surface", sa.Text(), nullable=False, comment="context, search or digest: what was asked for."),
        sa.Column(
            "reason",
            sa.Text(),
            nullable=False,
            comment="Why observations were searched: asked, recall phrase …; none: they were not.",
        ),
        sa.Column("queries", sa.BigInteger(), nullable=False, comment="How often."),
        sa.Column(
            "without_hit",
            sa.BigInteger(),
            nullable=False,
            comment="How often nothing was found; 0 where nothing was searched.",
        ),
        sa.Column(
            "seconds",
            sa.Double(),
            nullable=False,
            comment="How long searching took, in sum; 0 where nothing was searched.",
        ),
        sa.Column("slowest_seconds", sa.Double(), nullable=False, comment="How long it took at worst."),
        sa.CheckConstraint("queries > 0", name=op.f("retrievals_queries_check")),
        sa.CheckConstraint("slowest_seconds BETWEEN 0 AND seconds", name=op.f("retrievals_slowest_seconds_check")),
        sa.CheckConstraint("surface IN ('context', 'search', 'digest')", name=op.f("retrievals_surface_check")),
        sa.CheckConstraint("without_hit BETWEEN 0 AND queries", name=op.f("retrievals_without_hit_check")),
        sa.ForeignKeyConstraint(["agent_key"], ["memory.agents.agent_key"], name=op.f("retrievals_agent_key_fkey")),
        sa.PrimaryKeyConstraint("agent_key", "day", "surface", "reason", name=op.f("retrievals_pkey")),
        schema="memory",
        comment="One row per agent, day (UTC), surface and reason: how often memory was asked. It names nobody.",
    )
    for script in (ERASE_AGENT, V_RETRIEVAL):
        run(script)
    for statement in statements_of(POLICIES):
        if "ON memory.retrievals " in statement or "TABLE memory.retrievals " in statement:  # the others stand
            op.execute(statement)


def downgrade() -> None:
    run(ERASE_AGENT_BEFORE)
    op.execute("DROP VIEW memory.v_retrieval")
    op.drop_table("retrievals", schema="memory")


def run(script: str) -> None:
    for statement in statements_of(script):
        op.execute(statement)


def statements_of(script: str) -> list[str]:
    """asyncpg prepares one statement at a time; each begins at the start of a line, bodies are indented."""
    return re.split(r";\s*\n(?=(?:CREATE|COMMENT|REVOKE|ALTER|--) ?)", script.strip().removesuffix(";"))
