-- memory.jaccard(one, other): of all that either has, the share that both have: 0 to 1. 0 where neither has anything.
CREATE OR REPLACE FUNCTION memory.jaccard(p_one text[], p_other text[]) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(avg((x.topic = ANY (p_one) AND x.topic = ANY (p_other))::integer), 0)::float8
    FROM (SELECT unnest(p_one) AS topic UNION SELECT unnest(p_other)) x
$$;

COMMENT ON FUNCTION memory.jaccard IS 'How much two sets of words have in common, 0 to 1.';

-- memory.seal_reason(topics, held, last_at, new_topics, new, at, rules): why an open episode ends with so many `new` observations, or
-- before them; null: they go on with it. In this order: with them it would hold more than `most` (max_memories: they still belong to
-- it); they are about something else (topic_shift: the Jaccard index is below `shift`; nothing is said by what has no topics); they
-- were said `gap` seconds after its last or later (time_gap). `held`: how many it has; `topics`: what these are about.
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

-- memory.best_topics(topics): of lists of topics, one after another, the 16 that most of them have, those that came first first.
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
