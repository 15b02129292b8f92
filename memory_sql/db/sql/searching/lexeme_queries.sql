-- memory.lexeme_queries(g, language, lexeme): what memory.query_lexemes gave, as one tsquery per term and language that any of
-- its lexemes satisfies.
CREATE OR REPLACE FUNCTION memory.lexeme_queries(p_g integer[], p_language text[], p_lexeme text[])
RETURNS TABLE (g integer, language text, query tsquery)
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT t.g, t.language,
           string_agg('''' || replace(replace(t.lexeme, E'\\', E'\\\\'), '''', '''''') || '''', '|')::tsquery
    FROM unnest(p_g, p_language, p_lexeme) t(g, language, lexeme)
    GROUP BY t.g, t.language
$$;

COMMENT ON FUNCTION memory.lexeme_queries IS 'One tsquery per term and language; one row each.';

-- memory.words_held(search, queries, at, most): which of the queries behind place `at` a text meets, a bit each; null: none. Only
-- the first `most` are asked, at most 32, by eights. The planner puts it into the query that asks, where a subquery of as many
-- rows takes twice as long for each text.
CREATE OR REPLACE FUNCTION memory.eight_held(p_search tsvector, p_queries tsquery[], p_at integer) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT (
        CASE WHEN p_search @@ p_queries[p_at + 1] THEN 1 ELSE 0 END + CASE WHEN p_search @@ p_queries[p_at + 2] THEN 2 ELSE 0 END
        + CASE WHEN p_search @@ p_queries[p_at + 3] THEN 4 ELSE 0 END + CASE WHEN p_search @@ p_queries[p_at + 4] THEN 8 ELSE 0 END
        + CASE WHEN p_search @@ p_queries[p_at + 5] THEN 16 ELSE 0 END + CASE WHEN p_search @@ p_queries[p_at + 6] THEN 32 ELSE 0 END
        + CASE WHEN p_search @@ p_queries[p_at + 7] THEN 64 ELSE 0 END + CASE WHEN p_search @@ p_queries[p_at + 8] THEN 128 ELSE 0 END
    )::bigint
$$;

COMMENT ON FUNCTION memory.eight_held IS 'Which of eight queries a text meets, a bit each; one value.';

CREATE OR REPLACE FUNCTION memory.words_held(p_search tsvector, p_queries tsquery[], p_at integer, p_most integer) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT memory.eight_held(p_search, p_queries, p_at)
        | CASE WHEN p_most > 8 THEN memory.eight_held(p_search, p_queries, p_at + 8) << 8 ELSE 0 END
        | CASE WHEN p_most > 16 THEN memory.eight_held(p_search, p_queries, p_at + 16) << 16 ELSE 0 END
        | CASE WHEN p_most > 24 THEN memory.eight_held(p_search, p_queries, p_at + 24) << 24 ELSE 0 END
$$;

COMMENT ON FUNCTION memory.words_held IS 'Which of the queries a text meets, a bit each; one value.';
