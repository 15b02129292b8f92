CREATE OR REPLACE FUNCTION memory.words_sampled(
    p_agent bigint, p_scope bigint, p_size integer, p_languages text[], p_queries tsquery[], p_most integer
) RETURNS double precision[]
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    c_sample CONSTANT integer := 256;
BEGIN
    RETURN (
        WITH sample AS MATERIALIZED (
            SELECT memory.words_held(o.search, p_queries, o.at, p_most) AS mask
            FROM generate_series(1, c_sample) i(i)
            CROSS JOIN LATERAL (
                SELECT o.seq, o.search, (array_position(p_languages, o.language) - 1) * 32 AS at
                FROM memory.observations o
                WHERE o.agent_key = p_agent AND o.scope_id = p_scope
                  AND o.seq = (i.i::bigint * p_size / c_sample)::integer AND memory.is_found(o.standing)
                LIMIT 1
            ) o
        )
        SELECT array_agg(x.found * p_size ORDER BY x.g)
        FROM (
            SELECT g.g, (count(s.mask) + 0.5) / (c_sample + 1.0) AS found
            FROM generate_series(1, p_most) g(g)
            LEFT JOIN sample s ON s.mask >> (g.g - 1) & 1 = 1
            GROUP BY g.g
        ) x
    );
END
$$;
COMMENT ON FUNCTION memory.words_sampled IS
    'In how many of a scope''s observations each word of a query stands, from a sample.';
