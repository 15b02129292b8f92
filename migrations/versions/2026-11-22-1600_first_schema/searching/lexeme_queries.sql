CREATE OR REPLACE FUNCTION memory.lexeme_queries(p_g integer[], p_language text[], p_lexeme text[])
RETURNS TABLE (g integer, language text, query tsquery)
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT t.g, t.language,
           string_agg('''' || replace(replace(t.lexeme, '\', '\\'), '''', '''''') || '''', '|')::tsquery
    FROM unnest(p_g, p_language, p_lexeme) t(g, language, lexeme)
    GROUP BY t.g, t.language
$$;
COMMENT ON FUNCTION memory.lexeme_queries(integer[], text[], text[]) IS
    'One tsquery per term and language; one row each.';
