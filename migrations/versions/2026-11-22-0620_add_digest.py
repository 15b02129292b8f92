"""Add the digest

Frozen: imports nothing of memory_sql.

Revision ID: c1d7e35a90b4
Revises: b61d3f08a2c7
Create Date: 2026-11-22 06:20:00+00:00
"""

from __future__ import annotations

import re

from alembic import op

revision = "c1d7e35a90b4"
down_revision = "b61d3f08a2c7"
branch_labels = None
depends_on = None

AGENT_SETTINGS = """
-- memory.agent_settings(agent): what the agent has of its own of the settings, by name; of an agent that was never seen an
-- empty object. One object. It runs as its owner: a user who reads needs them before anybody has named a principal.
CREATE OR REPLACE FUNCTION memory.agent_settings(p_agent text) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
AS $$
    SELECT coalesce((SELECT a.settings FROM memory.agents a WHERE a.agent_id = p_agent), '{}')
$$;

REVOKE EXECUTE ON FUNCTION memory.agent_settings(text) FROM PUBLIC;

COMMENT ON FUNCTION memory.agent_settings(text) IS 'The settings that an agent has of its own, by name.';
"""

DIGEST_CANDIDATES = """
-- memory.digest_candidates(agent, user, session, defaults, asked, searched): the observations, among those that the
-- principal may see, with which a digest begins. One row per observation, unordered. The settings are those of the agent,
-- else `p_defaults`; `p_asked` go before both. Nothing where a digest is off or its assembly isn't asked for.
-- The newest active one of each pinned fact, whatever else is said of it: an older one of another scope would be out of
-- date. What has a pinned tag, newest first. Without pins, and if nothing was searched for, the most important and then newest
-- of each scope's newest (digest_newest: a bound on what is read). Of tags and the last at most twice as many as a digest
-- may hold. It runs as its owner and asks memory.visible_scopes itself: one round trip, without naming a principal first.
CREATE OR REPLACE FUNCTION memory.digest_candidates(
    p_agent text, p_user text, p_session text, p_defaults jsonb, p_asked jsonb, p_searched boolean
)
RETURNS TABLE (
    scope_id bigint, seq integer, scope_kind text, owner text, name text, content text, observed_at timestamptz,
    source_kind text, session_id text, message_ids text[], kind text, confidence real, importance real, sensitivity text,
    verification text, status text, fact_key text, tags text[]
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_is jsonb := p_defaults || memory.agent_settings(p_agent) || p_asked;
    v_keys text[] := ARRAY(SELECT jsonb_array_elements_text(v_is -> 'digest_fact_keys'));
    v_tags text[] := ARRAY(SELECT jsonb_array_elements_text(v_is -> 'digest_tags'));
    v_shown text[] := ARRAY(SELECT jsonb_array_elements_text(v_is -> 'digest_sensitivities'));
    v_most bigint := 2 * (v_is ->> 'digest_items')::bigint;
    v_newest bigint := (v_is ->> 'digest_newest')::bigint;
BEGIN
    IF v_is ->> 'assembly' = 'eden' OR NOT (v_is ->> 'digest_enabled')::boolean OR v_most = 0 THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH visible AS MATERIALIZED (
        SELECT s.agent_key, s.scope_id, s.kind, s.owner, s.name
        FROM memory.visible_scopes(p_agent, p_user, p_session) v
        JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id
        WHERE s.is_active
    ), pinned AS (
        SELECT DISTINCT ON (o.fact_key) o.agent_key, o.scope_id, o.seq
        FROM visible v
        JOIN memory.observations o ON o.agent_key = v.agent_key AND o.scope_id = v.scope_id
        LEFT JOIN memory.observation_states t ON t.agent_key = o.agent_key AND t.scope_id = o.scope_id AND t.seq = o.seq
        WHERE o.fact_key IS NOT NULL AND o.fact_key = ANY (v_keys) AND coalesce(t.status, 'active') = 'active'
        ORDER BY o.fact_key, o.observed_at DESC, o.scope_id, o.seq
    ), tagged AS (
        SELECT o.agent_key, o.scope_id, o.seq
        FROM visible v
        JOIN memory.observations o ON o.agent_key = v.agent_key AND o.scope_id = v.scope_id
        LEFT JOIN memory.observation_states t ON t.agent_key = o.agent_key AND t.scope_id = o.scope_id AND t.seq = o.seq
        WHERE cardinality(v_tags) > 0 AND o.tags && v_tags AND o.sensitivity = ANY (v_shown)
          AND coalesce(t.status, 'active') = 'active' AND coalesce(t.verification, 'unverified') <> 'disputed'
        ORDER BY o.observed_at DESC, o.scope_id, o.seq
        LIMIT v_most
    ), newest AS (
        SELECT n.agent_key, n.scope_id, n.seq
        FROM visible v
        CROSS JOIN LATERAL (
            SELECT o.agent_key, o.scope_id, o.seq, o.importance, o.observed_at
            FROM memory.observations o
            LEFT JOIN memory.observation_states t
                ON t.agent_key = o.agent_key AND t.scope_id = o.scope_id AND t.seq = o.seq
            WHERE o.agent_key = v.agent_key AND o.scope_id = v.scope_id AND o.sensitivity = ANY (v_shown)
              AND coalesce(t.status, 'active') = 'active' AND coalesce(t.verification, 'unverified') <> 'disputed'
            ORDER BY o.seq DESC
            LIMIT v_newest
        ) n
        WHERE NOT p_searched AND cardinality(v_keys) = 0 AND cardinality(v_tags) = 0
        ORDER BY n.importance DESC NULLS LAST, n.observed_at DESC, n.scope_id, n.seq
        LIMIT v_most
    ), chosen AS (
        SELECT * FROM pinned UNION SELECT * FROM tagged UNION SELECT * FROM newest
    )
    SELECT o.scope_id, o.seq, v.kind, v.owner, v.name, o.content, o.observed_at, o.source_kind, o.session_id,
           o.message_ids, o.kind, o.confidence, o.importance, o.sensitivity, coalesce(t.verification, 'unverified'),
           coalesce(t.status, 'active'), o.fact_key, o.tags
    FROM chosen c
    JOIN visible v ON v.agent_key = c.agent_key AND v.scope_id = c.scope_id
    JOIN memory.observations o ON o.agent_key = c.agent_key AND o.scope_id = c.scope_id AND o.seq = c.seq
    LEFT JOIN memory.observation_states t ON t.agent_key = c.agent_key AND t.scope_id = c.scope_id AND t.seq = c.seq;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.digest_candidates(text, text, text, jsonb, jsonb, boolean) FROM PUBLIC;

COMMENT ON FUNCTION memory.digest_candidates(text, text, text, jsonb, jsonb, boolean) IS
    'The observations with which a digest for a user of an agent begins; one row per observation.';
"""

V_RETRIEVAL = """
-- memory.v_retrieval: how often memory was asked, and whether it answered. One row per agent and day (UTC) on which somebody
-- asked; what was counted last may be missing for a minute. queries: contexts whose XML was asked for with a message,
-- searches, and digests, in a context or alone, that looked for words. fired_share: of the contexts in which the rule
-- decided, the share in which it retrieved; null where it never decided. without_hit_share: of the queries that searched,
-- the share in which nothing was found. mean_ms, slowest_ms: milliseconds that searching took. The last three are null
-- where nothing was searched.
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

V_RETRIEVAL_BEFORE = """
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


def upgrade() -> None:
    run(AGENT_SETTINGS)
    run(DIGEST_CANDIDATES)
    run(V_RETRIEVAL)


def downgrade() -> None:
    run(V_RETRIEVAL_BEFORE)
    op.execute("DROP FUNCTION memory.digest_candidates(text, text, text, jsonb, jsonb, boolean)")
    op.execute("DROP FUNCTION memory.agent_settings(text)")


def run(script: str) -> None:
    """asyncpg prepares one statement at a time; each begins at the start of a line, bodies are indented."""
    for statement in re.split(r";\s*\n(?=(?:CREATE|COMMENT|REVOKE) )", script.strip().removesuffix(";")):
        op.execute(statement)
