CREATE OR REPLACE FUNCTION memory.heirs(
    p_agent bigint, p_scopes bigint[], p_seqs integer[], p_scores double precision[], p_covered double precision[], p_outside text
)
RETURNS TABLE (
    scope_id bigint, seq integer, score double precision, covered double precision, observed_at timestamptz, status text
)
LANGUAGE plpgsql STABLE ROWS 20 AS $$
#variable_conflict use_column
DECLARE
    c_steps CONSTANT integer := 20;  -- so many times one may have taken the place of another
BEGIN
    IF p_seqs IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH RECURSIVE successor (scope_id, seq, score, covered, step, standing, observed_at, conversation_id) AS (
        SELECT s.*, 0, 'superseded', NULL::timestamptz, NULL::text
        FROM unnest(p_scopes, p_seqs, p_scores, p_covered) s(scope_id, seq, score, covered)
        UNION ALL
        SELECT s.scope_id, t.superseded_by, s.score, s.covered, s.step + 1, o.standing, o.observed_at, o.conversation_id
        FROM successor s
        CROSS JOIN LATERAL (
            SELECT t.superseded_by
            FROM memory.observation_states t
            WHERE t.agent_key = p_agent AND t.scope_id = s.scope_id AND t.seq = s.seq
            LIMIT 1
        ) t
        CROSS JOIN LATERAL (
            SELECT o.standing, coalesce(o.said_again_at, o.observed_at) AS observed_at, o.conversation_id
            FROM memory.observations o
            WHERE o.agent_key = p_agent AND o.scope_id = s.scope_id AND o.seq = t.superseded_by
            LIMIT 1
        ) o
        WHERE NOT memory.in_use(s.standing) AND s.step < c_steps  -- behind what is in use nothing else is
    )
    SELECT DISTINCT ON (s.scope_id, s.seq) s.scope_id, s.seq, s.score, s.covered, s.observed_at, s.standing
    FROM successor s
    WHERE memory.in_use(s.standing) AND (p_outside IS NULL OR s.conversation_id IS DISTINCT FROM p_outside)
    ORDER BY s.scope_id, s.seq, s.score DESC;
END
$$;
COMMENT ON FUNCTION memory.heirs IS 'What took the place of observations in the end; one row per observation that is in use.';
