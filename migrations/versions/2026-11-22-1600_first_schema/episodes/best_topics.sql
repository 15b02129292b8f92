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
