-- memory.search(…): what a query finds for a principal, both arms in one round trip. One row per observation (arm
-- `observation`), at most p_limit of them, and one per message (arm `message`), at most p_messages, each arm best first; what
-- only the other arm has is null. A message inherits a share of the scores of the observations found that were made of it.
-- p_query is what memory_sql.ranking.Query.to_json makes, p_days as in memory.retention_start. p_as_of: of what was known at
-- that moment. p_vector: the query's, of the embedding model p_model; null: words alone count.
CREATE OR REPLACE FUNCTION memory.search(
    p_agent text, p_user text, p_conversation text, p_query jsonb, p_limit bigint, p_messages bigint, p_days double precision,
    p_at timestamptz, p_as_of timestamptz, p_explain boolean, p_vector real[], p_model text
)
RETURNS TABLE (
    scope_id bigint, seq integer, scope_kind text, owner text, name text, content text, observed_at timestamptz,
    created_at timestamptz, source_kind text, conversation_id text, speaker text, message_ids text[], run_id bigint,
    category text, kind text, confidence real, importance real, sensitivity text, no_propagate boolean,
    confidential boolean, verification text, superseded_by integer, fact_key text, version integer, tags text[],
    own_metadata jsonb, status text, pending boolean, arm text, score double precision, explanation jsonb,
    number bigint, role text, user_id text, observations text[]
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    c_lending CONSTANT integer := 20;
    v_share double precision := p_query -> 'weights' ->> 'source';
BEGIN
    IF p_messages = 0 THEN
        RETURN QUERY
        SELECT o.scope_id, o.seq, o.scope_kind, o.owner, o.name, o.content, o.observed_at, o.created_at, o.source_kind,
               o.conversation_id, o.speaker, o.message_ids, o.run_id, o.category, o.kind, o.confidence, o.importance,
               o.sensitivity, o.no_propagate, o.confidential, o.verification, o.superseded_by, o.fact_key, o.version, o.tags,
               o.own_metadata, o.status, o.pending, 'observation', o.score, o.explanation, NULL::bigint, NULL::text,
               NULL::text, NULL::text[]
        FROM memory.search_observations(
            p_agent, p_user, p_conversation, p_query, p_limit, p_at, p_as_of, p_explain, p_vector, p_model
        ) o;
        RETURN;
    END IF;
    RETURN QUERY
    WITH found AS MATERIALIZED (
        SELECT o.*
        FROM memory.search_observations(
            p_agent, p_user, p_conversation, p_query, greatest(p_limit, c_lending), p_at, p_as_of, p_explain, p_vector,
            p_model
        ) WITH ORDINALITY o
    ), lent AS MATERIALIZED (
        SELECT array_agg(e.conversation_id) AS conversations, array_agg(e.number) AS numbers, array_agg(v_share * o.lends) AS scores
        FROM found o
        JOIN memory.evidence e ON e.agent_key = o.agent_key AND e.scope_id = o.scope_id AND e.seq = o.seq
        WHERE e.number IS NOT NULL AND v_share > 0
    )
    SELECT o.scope_id, o.seq, o.scope_kind, o.owner, o.name, o.content, o.observed_at, o.created_at, o.source_kind,
           o.conversation_id, o.speaker, o.message_ids, o.run_id, o.category, o.kind, o.confidence, o.importance,
           o.sensitivity, o.no_propagate, o.confidential, o.verification, o.superseded_by, o.fact_key, o.version, o.tags,
           o.own_metadata, o.status, o.pending, 'observation', o.score, o.explanation, NULL::bigint, NULL::text,
           NULL::text, NULL::text[]
    FROM found o
    WHERE o.ordinality <= p_limit
    UNION ALL
    SELECT NULL, NULL, NULL, NULL, NULL, m.content, m.said_at, NULL, NULL,
           m.conversation_id, m.speaker, ARRAY[m.message_id], NULL, NULL, NULL, NULL, NULL,
           NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
           NULL, NULL, NULL, 'message', m.score, m.explanation, m.number, m.role,
           m.user_id, m.observations
    FROM lent l
    CROSS JOIN LATERAL memory.search_messages(
        p_agent, p_user, p_conversation, p_query, p_messages, p_days, p_at, p_as_of, p_explain, l.conversations, l.numbers, l.scores
    ) m;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.search(
    text, text, text, jsonb, bigint, bigint, double precision, timestamptz, timestamptz, boolean, real[], text
) FROM PUBLIC;

COMMENT ON FUNCTION memory.search(
    text, text, text, jsonb, bigint, bigint, double precision, timestamptz, timestamptz, boolean, real[], text
) IS 'What a query finds for a user of an agent, each arm best first; one row per observation or message.';
