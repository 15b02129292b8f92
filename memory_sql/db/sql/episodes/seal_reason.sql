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
