CREATE OR REPLACE FUNCTION memory.topics_said(p_observation memory.observations, p_topics text[]) RETURNS text[]
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT ARRAY(
        SELECT t.topic
        FROM unnest(p_topics) WITH ORDINALITY t(topic, place)
        WHERE memory.says(p_observation.language, p_observation.content, t.topic)
           OR t.topic = p_observation.category OR t.topic = ANY (lower(p_observation.tags::text)::text[])
        ORDER BY t.place
    )
$$;
COMMENT ON FUNCTION memory.topics_said IS 'Of topics those that an observation says itself; one value.';
