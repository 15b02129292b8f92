CREATE OR REPLACE FUNCTION memory.words_sampled(
    p_agent bigint, p_scope bigint, p_size integer, p_g integer[], p_languages text[], p_queries tsquery[]
)
RETURNS double precision[]
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_column
DECLARE
    c_sample CONSTANT integer := 256;
BEGIN
    RETURN (
        WITH sample AS MATERIALIZED (
            SELECT o.language, o.search
            FROM generate_series(1, c_sample) i(i)
            CROSS JOIN LATERAL (
                SELECT o.seq, o.language, o.search
                FROM memory.observations o
                WHERE o.agent_key = p_agent AND o.scope_id = p_scope
                  AND o.seq = (i.i::bigint * p_size / c_sample)::integer
                LIMIT 1
            ) o
            LEFT JOIN LATERAL (
                SELECT t.status
                FROM memory.observation_states t
                WHERE t.agent_key = p_agent AND t.scope_id = p_scope AND t.seq = o.seq
                LIMIT 1
            ) t ON true
            WHERE memory.is_found(t.status)
        )
        SELECT array_agg(x.found * p_size ORDER BY x.g)
        FROM (
            SELECT g.g, (count(o.language) + 0.5) / (c_sample + 1.0) AS found
            FROM generate_series(1, (SELECT max(g) FROM unnest(p_g) g)) g(g)
            LEFT JOIN unnest(p_g, p_languages, p_queries) t(g, language, query) ON t.g = g.g
            LEFT JOIN sample o ON o.language = t.language AND o.search @@ t.query
            GROUP BY g.g
        ) x
    );
END
$$;
COMMENT ON FUNCTION memory.words_sampled(bigint, bigint, integer, integer[], text[], tsquery[]) IS
    'In how many of a scope''s observations each word of a query stands, from a sample.';
