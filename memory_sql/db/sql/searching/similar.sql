-- memory.similar(agent_key, scopes, model, bits, gone, known_scopes, known_seqs, hot): what lies nearest to a query in meaning, of
-- what a search may find in these scopes, and of what was superseded in each the newest p_gone (null: all); as of a moment, of what was
-- known then, which is listed. One row per observation, at most 50. p_bits and the vectors of p_model have one bit a dimension, its
-- sign: the fewer differ, the nearer (Hamming distance). `meaning`: how many standard deviations of these 50 one stands above
-- the last of them, 0 where all are as near. Something is always the nearest: `close` says whether it is nearer than chance, since
-- two texts that have nothing to do with each other differ in about half of the bits. Other models' vectors aren't compared, and
-- what has none isn't found; null bits (a text without direction) have no length. Everything is compared, by its key. It asks
-- nobody whether they may see these scopes: who calls it has found that out. With `hot` what is cold isn't compared.
CREATE OR REPLACE FUNCTION memory.similar(
    p_agent bigint, p_scopes bigint[], p_model text, p_bits bit varying, p_gone integer,
    p_known_scopes bigint[], p_known_seqs integer[], p_hot boolean DEFAULT false
) RETURNS TABLE (scope_id bigint, seq integer, meaning double precision, close boolean)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    c_chance CONSTANT double precision := 0.45;  -- of the bits
BEGIN
    RETURN QUERY
    SELECT n.scope_id, n.seq,
           coalesce((max(n.distance) OVER w - n.distance) / nullif(stddev_pop(n.distance) OVER w, 0), 0)::float8,
           n.distance < c_chance * length(p_bits)
    FROM (
        SELECT e.scope_id, e.seq, bit_count(e.bits # p_bits) AS distance
        FROM (
            SELECT e.scope_id, e.seq, e.bits
            FROM memory.observation_vectors e
            WHERE p_known_scopes IS NULL AND NOT p_hot AND e.agent_key = p_agent AND e.scope_id = ANY (p_scopes)
              AND e.standing IN ('active', 'archived') AND e.model = p_model AND length(e.bits) = length(p_bits)
            UNION ALL
            SELECT e.scope_id, e.seq, e.bits
            FROM memory.observation_vectors e
            WHERE p_known_scopes IS NULL AND p_hot AND e.agent_key = p_agent AND e.scope_id = ANY (p_scopes)
              AND e.standing IN ('active', 'archived') AND NOT e.cold AND e.model = p_model AND length(e.bits) = length(p_bits)
            UNION ALL
            SELECT e.scope_id, e.seq, e.bits
            FROM unnest(p_scopes) s(scope_id)
            CROSS JOIN LATERAL (
                SELECT e.scope_id, e.seq, e.bits
                FROM memory.observation_vectors e
                WHERE p_known_scopes IS NULL AND e.agent_key = p_agent AND e.scope_id = s.scope_id
                  AND e.standing = 'superseded' AND NOT e.cold AND e.model = p_model AND length(e.bits) = length(p_bits)
                ORDER BY e.seq DESC LIMIT p_gone
            ) e
            UNION ALL
            SELECT e.scope_id, e.seq, e.bits
            FROM unnest(p_known_scopes, p_known_seqs) k(scope_id, seq)
            CROSS JOIN LATERAL (  -- by its key, whatever the planner thinks of how many there are
                SELECT e.scope_id, e.seq, e.bits
                FROM memory.observation_vectors e
                WHERE e.agent_key = p_agent AND e.scope_id = k.scope_id AND e.seq = k.seq
                  AND e.model = p_model AND length(e.bits) = length(p_bits)
                LIMIT 1
            ) e
            WHERE k.scope_id = ANY (p_scopes)
        ) e
        ORDER BY distance, e.seq DESC, e.scope_id
        LIMIT 50
    ) n
    WINDOW w AS ();
END
$$;

COMMENT ON FUNCTION memory.similar IS 'The observations nearest to a query in meaning, of some scopes; one row per observation.';
