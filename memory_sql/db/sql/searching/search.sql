-- memory.search(…): what a query finds for a principal, both arms in one round trip. One row per observation (arm
-- `observation`), at most p_limit of them, and one per message (arm `message`), at most p_messages, each arm best first; what
-- only the other arm has is null. One row of the arm `nobody`: there is no such agent. A message inherits a share of the scores
-- of the observations found that were made of it. p_query is what memory_sql.domain.query.Query.to_json makes, p_days as in
-- memory.retention_start. p_as_of: of what was known at that moment. p_vector: the query's, of the model p_model; null: none.
CREATE OR REPLACE FUNCTION memory.search(
    p_agent text, p_user text, p_conversation text, p_query jsonb, p_limit bigint, p_messages bigint, p_days double precision,
    p_at timestamptz, p_as_of timestamptz, p_explain boolean, p_vector bit varying, p_model text
)
RETURNS TABLE (
    arm text, score double precision, strength double precision, covered double precision, near boolean, explanation jsonb,
    observation memory.observations, scope_kind text, owner text, name text, status text, verification text,
    superseded_by integer, pending boolean, version integer, resolved text,
    message memory.messages, observations text[]
)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    c_lending CONSTANT integer := 20;
    v_share double precision := p_query -> 'weights' ->> 'source';
BEGIN
    RETURN QUERY
    WITH found AS MATERIALIZED (
        SELECT o.*
        FROM memory.search_observations(
            p_agent, p_user, p_conversation,
            CASE WHEN p_query -> 'weights' ? 'hot_first' THEN p_query || jsonb_build_object('enough', p_limit) ELSE p_query END,
            CASE WHEN p_messages > 0 THEN greatest(p_limit, c_lending) ELSE p_limit END,
            p_at, p_as_of, p_explain, p_vector, p_model
        ) WITH ORDINALITY o
    ), lent AS MATERIALIZED (
        SELECT array_agg(o.scope_id) AS scopes, array_agg(o.seq) AS seqs, array_agg(v_share * o.score) AS scores
        FROM found o
        WHERE v_share > 0 AND NOT o.overtaken
    ), arms AS (
        SELECT 'observation' AS arm, o.score, o.strength, o.covered, o.near, o.explanation, o.agent_key, o.scope_id, o.seq, o.status, o.pending,
               NULL AS conversation_id, NULL::bigint AS number, NULL::text[] AS observations
        FROM found o
        WHERE o.ordinality <= p_limit OR o.overtaken
        UNION ALL
        SELECT 'message', m.score, m.strength, m.covered, NULL, m.explanation, m.agent_key, NULL, NULL, NULL, NULL,
               m.conversation_id, m.number, m.observations
        FROM lent l
        CROSS JOIN LATERAL memory.search_messages(
            p_agent, p_user, p_conversation, p_query, p_messages, p_days, p_at, p_as_of, p_explain, l.scopes, l.seqs, l.scores
        ) m
        WHERE p_messages > 0
    )
    SELECT a.arm, a.score, a.strength, a.covered, a.near, a.explanation, o.observation, o.scope_kind, o.owner, o.name, coalesce(a.status, o.status),
           o.verification, o.superseded_by, coalesce(a.pending, o.pending), o.version, o.resolved, m.message, a.observations
    FROM arms a
    LEFT JOIN LATERAL memory.observation_as_read(a.agent_key, a.scope_id, a.seq) o ON true
    LEFT JOIN LATERAL (
        SELECT m AS message
        FROM memory.messages m
        WHERE m.agent_key = a.agent_key AND m.conversation_id = a.conversation_id AND m.number = a.number
        LIMIT 1
    ) m ON true;
    IF NOT FOUND AND NOT EXISTS (SELECT FROM memory.agents WHERE agent_id = p_agent) THEN
        arm := 'nobody';
        RETURN NEXT;
    END IF;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.search FROM PUBLIC;

COMMENT ON FUNCTION memory.search IS
    'What a query finds for a user of an agent, each arm best first; one row per observation or message.';
