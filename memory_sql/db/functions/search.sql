-- memory.search(agent, user, session, query, limit): the observations that match, among those that the principal may see,
-- best first. One row per observation. `p_query` is for websearch_to_tsquery. Every text is searched in its own language
-- and once without one, as its search vector was made; the query is parsed once for each language, not for each row.
-- Row-level policies don't stand between it and the tables: under one `@@`, which isn't leakproof, may not be asked before
-- the policy, and no text index is used. It runs as its owner and asks memory.visible_scopes itself.
CREATE OR REPLACE FUNCTION memory.search(p_agent text, p_user text, p_session text, p_query text, p_limit bigint)
RETURNS TABLE (
    scope_id bigint, seq integer, scope_kind text, owner text, name text, content text, observed_at timestamptz,
    created_at timestamptz, source_kind text, session_id text, speaker text, message_ids text[], run_id bigint,
    category text, kind text, confidence real, importance real, sensitivity text, no_propagate boolean,
    confidential boolean, verification text, superseded_by integer, fact_key text, version integer, tags text[],
    own_metadata jsonb, status text, pending boolean, score real
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH wanted AS MATERIALIZED (
        SELECT l.language,
               websearch_to_tsquery(l.language::regconfig, p_query) || websearch_to_tsquery('simple'::regconfig, p_query)
                   AS query
        FROM (
            SELECT DISTINCT s.language
            FROM memory.visible_scopes(p_agent, p_user, p_session) v
            JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id
        ) l
    )
    SELECT o.scope_id, o.seq, s.kind, s.owner, s.name, o.content, o.observed_at, o.created_at, o.source_kind, o.session_id,
           o.speaker, o.message_ids, o.run_id, o.category, o.kind, o.confidence, o.importance, o.sensitivity,
           o.no_propagate, o.confidential, coalesce(t.verification, 'unverified'), t.superseded_by, o.fact_key,
           memory.observation_version(o.agent_key, o.scope_id, o.seq), o.tags, o.metadata, coalesce(t.status, 'active'),
           o.lane = 'absorb' AND coalesce(t.status, 'active') = 'active'
               AND (o.seq > s.done_seq OR coalesce(t.repend, false)),
           ts_rank(o.search, w.query)
    FROM memory.visible_scopes(p_agent, p_user, p_session) v
    JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id
    JOIN memory.observations o ON o.agent_key = s.agent_key AND o.scope_id = s.scope_id
    JOIN wanted w ON w.language = o.language
    LEFT JOIN memory.observation_states t ON t.agent_key = o.agent_key AND t.scope_id = o.scope_id AND t.seq = o.seq
    WHERE o.search @@ w.query
      AND coalesce(t.status, 'active') NOT IN ('quarantined', 'superseded', 'evicted')
      AND s.is_active
    ORDER BY ts_rank(o.search, w.query) DESC, o.observed_at DESC, o.scope_id, o.seq
    LIMIT p_limit;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.search(text, text, text, text, bigint) FROM PUBLIC;

COMMENT ON FUNCTION memory.search(text, text, text, text, bigint) IS
    'The observations that a user of an agent may see and that match, best first; one row per observation.';
