-- memory.query_lexemes(terms, languages): the words of a query as each of the languages stems them, with the number
-- of the term that asks for them. One row per language and lexeme; two terms with one stem are one.
CREATE OR REPLACE FUNCTION memory.query_lexemes(p_terms jsonb, p_languages text[])
RETURNS TABLE (g integer, language text, lexeme text)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT min(t.g)::integer, l.language, u.lexeme
    FROM unnest(p_languages) l(language)
    CROSS JOIN jsonb_array_elements(p_terms) WITH ORDINALITY t(term, g)
    CROSS JOIN LATERAL (
        SELECT unnest(tsvector_to_array(to_tsvector(l.language::regconfig, e.word)))
        FROM jsonb_array_elements_text(t.term -> 'words') e(word)
        UNION ALL
        SELECT jsonb_array_elements_text(t.term -> 'extra')
    ) u(lexeme)
    GROUP BY l.language, u.lexeme
$$;

COMMENT ON FUNCTION memory.query_lexemes(jsonb, text[]) IS
    'The words of a query as each language stems them; one row per language and lexeme.';
