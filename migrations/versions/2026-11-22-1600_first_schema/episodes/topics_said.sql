CREATE OR REPLACE FUNCTION memory.says(p_language text, p_text text, p_words text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN p_words ~ '[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7a3]' THEN strpos(lower(p_text), lower(p_words)) > 0
        ELSE w.lexemes <> '{}' AND w.lexemes <@ tsvector_to_array(memory.search_vector(p_language, p_text))
    END
    FROM (SELECT tsvector_to_array(memory.search_vector(p_language, p_words)) AS lexemes) w
$$;
COMMENT ON FUNCTION memory.says IS 'Whether a text says all of some words; one value.';
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
