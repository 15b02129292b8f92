-- memory.lexeme_queries(g, language, lexeme): what memory.query_lexemes gave, as one tsquery per term and language that any of
-- its lexemes satisfies.
CREATE OR REPLACE FUNCTION memory.lexeme_queries(p_g integer[], p_language text[], p_lexeme text[])
RETURNS TABLE (g integer, language text, query tsquery)
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT t.g, t.language,
           string_agg('''' || replace(replace(t.lexeme, '\', '\\'), '''', '''''') || '''', '|')::tsquery
    FROM unnest(p_g, p_language, p_lexeme) t(g, language, lexeme)
    GROUP BY t.g, t.language
$$;

COMMENT ON FUNCTION memory.lexeme_queries IS 'One tsquery per term and language; one row each.';

-- memory.words_held(search, queries, at): which of the eight queries behind place `at` a text meets, a bit each; null: none.
-- The planner puts it into the query that asks, where a subquery of as many rows takes four times as long for each text.
CREATE OR REPLACE FUNCTION memory.words_held(p_search tsvector, p_queries tsquery[], p_at integer) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT (
        (p_search @@ p_queries[p_at + 1] IS TRUE)::integer + (p_search @@ p_queries[p_at + 2] IS TRUE)::integer * 2
        + (p_search @@ p_queries[p_at + 3] IS TRUE)::integer * 4 + (p_search @@ p_queries[p_at + 4] IS TRUE)::integer * 8
        + (p_search @@ p_queries[p_at + 5] IS TRUE)::integer * 16 + (p_search @@ p_queries[p_at + 6] IS TRUE)::integer * 32
        + (p_search @@ p_queries[p_at + 7] IS TRUE)::integer * 64 + (p_search @@ p_queries[p_at + 8] IS TRUE)::integer * 128
    )::bigint
$$;

COMMENT ON FUNCTION memory.words_held IS 'Which of eight queries a text meets, a bit each; one value.';
