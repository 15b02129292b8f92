-- memory.holds_text(language, search, phrases, without): whether all of the phrases stand in a text and none of what must not.
CREATE OR REPLACE FUNCTION memory.holds_text(p_language text, p_search tsvector, p_phrases text[], p_without text[])
RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT coalesce((
               SELECT bool_and(p_search @@ phraseto_tsquery(p_language::regconfig, p.phrase)) FROM unnest(p_phrases) p(phrase)
           ), true)
       AND NOT coalesce((
               SELECT bool_or(p_search @@ phraseto_tsquery(p_language::regconfig, w.word)) FROM unnest(p_without) w(word)
           ), false)
$$;

COMMENT ON FUNCTION memory.holds_text IS 'Whether all of the phrases stand in a text and none of what must not.';
