CREATE OR REPLACE FUNCTION memory.says(p_language text, p_text text, p_words text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN p_words ~ '[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7a3]' THEN strpos(lower(p_text), lower(p_words)) > 0
        ELSE w.lexemes <> '{}' AND w.lexemes <@ tsvector_to_array(memory.search_vector(p_language, p_text))
    END
    FROM (SELECT tsvector_to_array(memory.search_vector(p_language, p_words)) AS lexemes) w
$$;
COMMENT ON FUNCTION memory.says IS 'Whether a text says all of some words; one value.';
