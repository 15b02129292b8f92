CREATE OR REPLACE FUNCTION memory.digest_candidates(
    p_agent text, p_user text, p_conversation text, p_defaults jsonb, p_asked jsonb, p_searched boolean
)
RETURNS TABLE (
    observation memory.observations, scope_kind text, owner text, name text, status text, verification text
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off  -- the planner assumes that most observations are tagged, and would read the whole table
AS $$
#variable_conflict use_column
DECLARE
    v_is jsonb := memory.settings_over(p_defaults, coalesce(memory.agent_settings(p_agent), '{}') || p_asked);
    v_keys text[] := ARRAY(SELECT jsonb_array_elements_text(v_is -> 'digest_fact_keys'));
    v_tags text[] := ARRAY(SELECT jsonb_array_elements_text(v_is -> 'digest_tags'));
    v_shown text[] := ARRAY(SELECT jsonb_array_elements_text(v_is -> 'digest_sensitivities'));
    v_most bigint := 2 * (v_is ->> 'digest_items')::numeric::bigint;
    v_newest bigint := (v_is ->> 'digest_newest')::numeric::bigint;
BEGIN
    IF v_is ->> 'assembly' = 'eden' OR NOT (v_is ->> 'digest_enabled')::boolean OR v_most = 0 THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH visible AS MATERIALIZED (
        SELECT s.agent_key, s.scope_id
        FROM memory.visible_scopes(p_agent, p_user, p_conversation) v
        JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id
        WHERE s.is_active
    ), pinned AS (
        SELECT DISTINCT ON (o.fact_key) o.agent_key, o.scope_id, o.seq
        FROM visible v
        JOIN memory.observations o ON o.agent_key = v.agent_key AND o.scope_id = v.scope_id
        WHERE o.fact_key IS NOT NULL AND o.fact_key = ANY (v_keys) AND o.standing = 'active'
        ORDER BY o.fact_key, coalesce(o.said_again_at, o.observed_at) DESC, o.scope_id, o.seq
    ), tagged AS (
        SELECT n.agent_key, n.scope_id, n.seq
        FROM visible v
        CROSS JOIN LATERAL (  -- no more per scope than the limit; observations without any tag aren't read
            SELECT o.agent_key, o.scope_id, o.seq, coalesce(o.said_again_at, o.observed_at) AS observed_at
            FROM memory.observations o
            LEFT JOIN LATERAL (  -- by its key, whatever the planner thinks of the table's size
                SELECT t.* FROM memory.observation_states t WHERE (t.agent_key, t.scope_id, t.seq) = (o.agent_key, o.scope_id, o.seq) LIMIT 1
            ) t ON true
            WHERE o.agent_key = v.agent_key AND o.scope_id = v.scope_id AND o.tags <> '{}' AND o.tags && v_tags
              AND o.sensitivity = ANY (v_shown)
              AND o.standing = 'active' AND coalesce(t.verification, 'unverified') <> 'disputed'
            ORDER BY coalesce(o.said_again_at, o.observed_at) DESC, o.seq
            LIMIT v_most
        ) n
        WHERE cardinality(v_tags) > 0
        ORDER BY n.observed_at DESC, n.scope_id, n.seq
        LIMIT v_most
    ), newest AS (
        SELECT n.agent_key, n.scope_id, n.seq
        FROM visible v
        CROSS JOIN LATERAL (
            SELECT o.*
            FROM (
                (SELECT o.agent_key, o.scope_id, o.seq, o.importance, o.observed_at, o.created_at, o.said_again_at
                FROM memory.observations o
                LEFT JOIN LATERAL (  -- by its key, whatever the planner thinks of the table's size
                    SELECT t.* FROM memory.observation_states t WHERE (t.agent_key, t.scope_id, t.seq) = (o.agent_key, o.scope_id, o.seq) LIMIT 1
                ) t ON true
                WHERE o.agent_key = v.agent_key AND o.scope_id = v.scope_id AND o.sensitivity = ANY (v_shown)
                  AND o.standing = 'active' AND coalesce(t.verification, 'unverified') <> 'disputed' AND o.said_again_at IS NULL
                ORDER BY o.seq DESC
                LIMIT v_newest)
                UNION ALL
                (SELECT o.agent_key, o.scope_id, o.seq, o.importance, o.said_again_at, o.created_at, o.said_again_at
                FROM memory.observations o
                LEFT JOIN LATERAL (
                    SELECT t.* FROM memory.observation_states t WHERE (t.agent_key, t.scope_id, t.seq) = (o.agent_key, o.scope_id, o.seq) LIMIT 1
                ) t ON true
                WHERE o.agent_key = v.agent_key AND o.scope_id = v.scope_id AND o.sensitivity = ANY (v_shown)
                  AND o.standing = 'active' AND coalesce(t.verification, 'unverified') <> 'disputed' AND o.said_again_at IS NOT NULL
                ORDER BY o.said_again_at DESC, o.seq DESC
                LIMIT v_newest)
            ) o
            ORDER BY CASE WHEN max(o.said_again_at) OVER () IS NOT NULL THEN greatest(o.created_at, o.said_again_at) END DESC, o.seq DESC
            LIMIT v_newest
        ) n
        WHERE NOT p_searched AND cardinality(v_keys) = 0 AND cardinality(v_tags) = 0
        ORDER BY n.importance DESC NULLS LAST, n.observed_at DESC, n.scope_id, n.seq
        LIMIT v_most
    ), chosen AS (
        SELECT * FROM pinned UNION SELECT * FROM tagged UNION SELECT * FROM newest
    )
    SELECT o.observation, o.scope_kind, o.owner, o.name, o.status, o.verification
    FROM chosen c
    CROSS JOIN LATERAL memory.observation_as_read(c.agent_key, c.scope_id, c.seq) o;
END
$$;
REVOKE EXECUTE ON FUNCTION memory.digest_candidates(text, text, text, jsonb, jsonb, boolean) FROM PUBLIC;
COMMENT ON FUNCTION memory.digest_candidates(text, text, text, jsonb, jsonb, boolean) IS
    'The observations with which a digest for a user of an agent begins; one row per observation.';
