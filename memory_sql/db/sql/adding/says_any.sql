-- memory.says_any(text, phrases): whether the text has one of the phrases, an array, as whole words; capitals and what stands
-- between words don't count. Looks at the first 4,000 characters. It never raises, nor is a phrase a pattern.
CREATE OR REPLACE FUNCTION memory.says_any(p_text text, p_phrases jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT EXISTS (
        SELECT FROM jsonb_array_elements_text(CASE WHEN jsonb_typeof(p_phrases) = 'array' THEN p_phrases ELSE '[]' END) AS p (phrase)
        CROSS JOIN LATERAL regexp_replace(lower(p.phrase), '[^[:alnum:]]+', ' ', 'g') AS words
        WHERE words ~ '[^ ]' AND position(' ' || btrim(words) || ' ' IN t.words) > 0
    )
    FROM (SELECT ' ' || regexp_replace(lower(left(p_text, 4000)), '[^[:alnum:]]+', ' ', 'g') || ' ' AS words) t
$$;

COMMENT ON FUNCTION memory.says_any IS 'Whether a text has one of some phrases, as whole words.';
