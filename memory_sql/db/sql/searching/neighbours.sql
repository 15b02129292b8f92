-- memory.neighbours(agent_key, scope, seqs, to_seq, each): for each of a scope's observations numbered p_seqs the p_each others, up to the
-- number p_to, which its text has absorbed and which are in use, that lie nearest to it in meaning, nearer than chance
-- (memory.similar). One row per pair; two of p_seqs may stand in two rows. By the vectors that are stored: what has none is near
-- nothing. Only the newest 10,000 are compared.
CREATE OR REPLACE FUNCTION memory.neighbours(
    p_agent bigint, p_scope bigint, p_seqs integer[], p_to integer, p_each integer
) RETURNS TABLE (seq integer, other_seq integer, place bigint)
LANGUAGE sql STABLE ROWS 100 AS $$
    WITH there AS MATERIALIZED (
        SELECT e.seq, e.model, e.bits
        FROM memory.observation_vectors e
        WHERE e.agent_key = p_agent AND e.scope_id = p_scope AND e.seq <= p_to AND e.standing = 'active'
        ORDER BY e.seq DESC
        LIMIT 10000
    )
    SELECT n.seq, k.seq, k.place
    FROM memory.observation_vectors n
    CROSS JOIN LATERAL (
        SELECT t.seq, bit_count(t.bits # n.bits) AS distance,
               row_number() OVER (ORDER BY bit_count(t.bits # n.bits), t.seq DESC) AS place
        FROM there t
        WHERE t.model = n.model AND length(t.bits) = length(n.bits) AND t.seq <> n.seq
        ORDER BY 2, 1 DESC
        LIMIT p_each
    ) k
    WHERE n.agent_key = p_agent AND n.scope_id = p_scope AND n.seq = ANY (p_seqs) AND k.distance < 0.45 * length(n.bits)
$$;

COMMENT ON FUNCTION memory.neighbours IS 'What a text has absorbed that lies nearest in meaning to each of some observations of its scope; one row per pair.';
