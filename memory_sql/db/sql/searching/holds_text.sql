-- memory.holds_text(language, content, extra, phrases, without): whether all of the phrases stand in a text and none of what must
-- not. The vectors that are stored don't say where a word stands, so it is made again, of the few texts that come so far.
CREATE OR REPLACE FUNCTION memory.holds_text(
    p_language text, p_content text, p_extra text, p_phrases text[], p_without text[]
)
RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT coalesce((
               SELECT bool_and(t.search @@ phraseto_tsquery(p_language::regconfig, p.phrase)) FROM unnest(p_phrases) p(phrase)
           ), true)
       AND NOT coalesce((
               SELECT bool_or(t.search @@ phraseto_tsquery(p_language::regconfig, w.word)) FROM unnest(p_without) w(word)
           ), false)
    FROM (
        SELECT to_tsvector(p_language::regconfig, left(p_content, 100000))
                   || to_tsvector('pg_catalog.simple', left(p_extra, 100000)) AS search
        OFFSET 0  -- once for all phrases
    ) t
$$;

COMMENT ON FUNCTION memory.holds_text(text, text, text, text[], text[]) IS
    'Whether all of the phrases stand in a text and none of what must not.';
