CREATE OR REPLACE FUNCTION memory.alike(
    p_agent bigint, p_scope bigint, p_seq integer, p_excluded text[], p_scopes bigint[], p_limit integer
)
RETURNS TABLE (scope_id bigint, seq integer, content text, observed_at timestamptz)
LANGUAGE sql STABLE SET jit = off AS $$
    WITH told AS MATERIALIZED (
        SELECT o.search, tsvector_to_array(o.search) AS words
        FROM memory.observations o
        WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.seq = p_seq
    ), tokens AS MATERIALIZED (
        SELECT coalesce(array_agg(k.token), '{}') AS wanted
        FROM unnest(p_scopes) AS g (scope_id)
        CROSS JOIN LATERAL (
            VALUES (memory.search_space(g.scope_id, 0, 'active', false)), (memory.search_space(g.scope_id, 0, 'active', true))
        ) AS x (space)
        CROSS JOIN told
        CROSS JOIN LATERAL unnest(memory.search_tokens(x.space, told.search)) AS k (token)
    ), found AS MATERIALIZED (
        SELECT o.scope_id, o.seq, o.content, o.observed_at, tsvector_to_array(o.search) AS words
        FROM memory.observations o
        WHERE memory.search_tokens(memory.search_space(o.scope_id, o.seq, o.standing, o.cold), o.search || o.cues) && (SELECT wanted FROM tokens)
          AND o.standing IN ('active', 'archived', 'superseded')  -- as the index has it
    ), compared AS (
        SELECT f.scope_id, f.seq, f.content, f.observed_at, (
            SELECT count(*) FROM (SELECT unnest(f.words) INTERSECT SELECT unnest(t.words)) both_have
        )::real / greatest(least(cardinality(f.words), cardinality(t.words)), 1) AS shared
        FROM found f
        CROSS JOIN told t
        WHERE f.scope_id = ANY (p_scopes) AND (f.scope_id, f.seq) <> (p_scope, p_seq)
    )
    SELECT c.scope_id, c.seq, c.content, c.observed_at
    FROM (SELECT c.* FROM compared c WHERE c.shared >= 0.5 ORDER BY c.shared DESC, c.scope_id, c.seq OFFSET 0) c
    WHERE EXISTS (SELECT FROM memory.shareable(p_agent, c.scope_id, p_excluded) h WHERE h.seq = c.seq)
    ORDER BY c.shared DESC, c.scope_id, c.seq
    LIMIT p_limit  -- whether one may be judged costs more than comparing it, so the closest are asked first
$$;
COMMENT ON FUNCTION memory.alike IS
    'The observations of scopes that have words in common with an observation; one row per observation.';
