CREATE OR REPLACE FUNCTION memory.jaccard(p_one text[], p_other text[]) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(avg((x.topic = ANY (p_one) AND x.topic = ANY (p_other))::integer), 0)::float8
    FROM (SELECT unnest(p_one) AS topic UNION SELECT unnest(p_other)) x
$$;
COMMENT ON FUNCTION memory.jaccard IS 'How much two sets of words have in common, 0 to 1.';
CREATE OR REPLACE FUNCTION memory.seal_reason(
    p_topics text[], p_held integer, p_last_at timestamptz, p_new_topics text[], p_new integer, p_at timestamptz, p_rules jsonb
) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN p_held + p_new > (p_rules ->> 'most')::integer THEN 'max_memories'
        WHEN cardinality(p_new_topics) > 0 AND memory.jaccard(p_topics, p_new_topics) < (p_rules ->> 'shift')::float8 THEN 'topic_shift'
        WHEN p_at - p_last_at >= make_interval(secs => (p_rules ->> 'gap')::float8) THEN 'time_gap'
    END
$$;
COMMENT ON FUNCTION memory.seal_reason IS 'Why an open episode ends, or null; one value.';
CREATE OR REPLACE FUNCTION memory.best_topics(p_topics jsonb) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(array_agg(t.topic ORDER BY t.times DESC, t.place, t.topic), '{}')
    FROM (
        SELECT t.topic, count(DISTINCT l.n) AS times, min(l.n * 100 + t.n) AS place
        FROM jsonb_array_elements(p_topics) WITH ORDINALITY l(list, n)
        CROSS JOIN jsonb_array_elements_text(l.list) WITH ORDINALITY t(topic, n)
        GROUP BY t.topic
        ORDER BY times DESC, place, t.topic
        LIMIT 16
    ) t
$$;
COMMENT ON FUNCTION memory.best_topics IS 'What most of these lists of topics have, at most 16.';
