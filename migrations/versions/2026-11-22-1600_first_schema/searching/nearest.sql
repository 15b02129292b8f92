CREATE OR REPLACE FUNCTION memory.nearest(
    p_agent bigint, p_scope bigint, p_seqs integer[], p_to integer, p_each integer, p_most integer
) RETURNS TABLE (seq integer, content text, observed_at timestamptz)
LANGUAGE sql STABLE ROWS 20 AS $$
    WITH gone AS MATERIALIZED (
        SELECT t.seq
        FROM memory.observation_states t
        WHERE t.agent_key = p_agent AND t.scope_id = p_scope AND t.repend AND memory.in_use(t.status)
    ), there AS MATERIALIZED (
        SELECT e.seq, e.model, e.bits
        FROM unnest('{false,true}'::boolean[]) c(cold)
        CROSS JOIN LATERAL (  -- each along its part of the index
            SELECT e.seq, e.model, e.bits
            FROM memory.observation_vectors e
            WHERE e.agent_key = p_agent AND e.scope_id = p_scope AND e.seq <= p_to AND e.standing = 'active' AND e.cold = c.cold
              AND e.seq <> ALL (p_seqs) AND e.seq NOT IN (TABLE gone)
            ORDER BY e.seq DESC
            LIMIT 10000
        ) e
        ORDER BY e.seq DESC
        LIMIT 10000
    ), found AS (
        SELECT k.seq, min(k.distance) AS distance
        FROM memory.observation_vectors n
        CROSS JOIN LATERAL (
            SELECT t.seq, bit_count(t.bits # n.bits) AS distance
            FROM there t
            WHERE t.model = n.model AND length(t.bits) = length(n.bits)
            ORDER BY distance, t.seq DESC
            LIMIT p_each
        ) k
        WHERE n.agent_key = p_agent AND n.scope_id = p_scope AND n.seq = ANY (p_seqs)
          AND k.distance < 0.45 * length(n.bits)
        GROUP BY k.seq
        ORDER BY 2, 1 DESC
        LIMIT p_most
    )
    SELECT o.seq, o.content, coalesce(o.said_again_at, o.observed_at)
    FROM found f
    JOIN memory.observations o ON o.agent_key = p_agent AND o.scope_id = p_scope AND o.seq = f.seq
    ORDER BY f.distance, f.seq DESC
$$;
COMMENT ON FUNCTION memory.nearest IS 'What a text has absorbed that lies nearest in meaning to some observations of its scope; one row each.';
