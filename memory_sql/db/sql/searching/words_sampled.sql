-- memory.words_sampled(agent_key, scope_id, size, languages, queries, most, hot): in how many of a scope's observations each
-- word of a query stands, by its number; never in none; and how many observations these are: `size`, or with `hot` about as many of
-- them as aren't cold. From a sample of 256, spread evenly over the `size` that there are. The words are asked as memory.words_held
-- does. What no search finds isn't looked at, or a score would tell of it; with `hot`, nor is what is cold. One row.
CREATE OR REPLACE FUNCTION memory.words_sampled(
    p_agent bigint, p_scope bigint, p_size integer, p_languages text[], p_queries tsquery[], p_most integer, p_hot boolean,
    OUT common double precision[], OUT size integer
)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    c_sample CONSTANT integer := 256;
    v_masks bigint[];
    v_cold integer;
BEGIN
    SELECT coalesce(array_agg(memory.words_held(o.search, p_queries, o.at, p_most)) FILTER (WHERE NOT o.passed), '{}'),
           count(*) FILTER (WHERE o.passed)
    INTO v_masks, v_cold
    FROM generate_series(1, c_sample) i(i)
    CROSS JOIN LATERAL (
        SELECT o.search, (array_position(p_languages, o.language) - 1) * 32 AS at, p_hot AND o.cold AS passed
        FROM memory.observations o
        WHERE o.agent_key = p_agent AND o.scope_id = p_scope
          AND o.seq = (i.i::bigint * p_size / c_sample)::integer AND memory.is_found(o.standing)
        LIMIT 1
    ) o;
    size := p_size::bigint * (c_sample - v_cold) / c_sample;
    common := ARRAY(
        SELECT (count(s.mask) + 0.5) / (c_sample - v_cold + 1.0) * size
        FROM generate_series(1, p_most) g(g)
        LEFT JOIN unnest(v_masks) s(mask) ON s.mask >> (g.g - 1) & 1 = 1
        GROUP BY g.g
        ORDER BY g.g
    );
END
$$;

COMMENT ON FUNCTION memory.words_sampled IS
    'In how many of a scope''s observations each word of a query stands, from a sample; one row.';
