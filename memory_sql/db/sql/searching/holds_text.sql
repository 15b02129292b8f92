-- memory.holds_text(language, search, content, extra, phrases, without): whether a text contains all of the phrases and none of
-- `without`. Stored vectors don't say where a word stands, so a vector that does is made of the text, if it has all words of a phrase.
CREATE OR REPLACE FUNCTION memory.holds_text(
    p_language text, p_search tsvector, p_content text, p_extra text, p_phrases text[], p_without text[]
)
RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(bool_and(t.wanted = CASE WHEN p_search @@ plainto_tsquery(p_language::regconfig, t.phrase) THEN (
               to_tsvector(p_language::regconfig, left(p_content, 100000))
                   || to_tsvector('pg_catalog.simple', left(p_extra, 100000))
           ) @@ phraseto_tsquery(p_language::regconfig, t.phrase) ELSE false END), true)
    FROM (SELECT unnest(p_phrases), true UNION ALL SELECT unnest(p_without), false) t(phrase, wanted)
$$;

COMMENT ON FUNCTION memory.holds_text IS 'Whether a text contains all of the phrases and none of what it must not.';
