-- memory.search_vector(language, text): the words of a text, or of its beginning, by the rules of that language, one that
-- `language` of a table may name; null of null. What is generated from it is stored, so it depends on nothing but its
-- arguments: whose path is searched makes no difference. A function and not one expression for each language: that would be
-- read anew by every statement that stores a row.
CREATE OR REPLACE FUNCTION memory.search_vector(p_language text, p_text text) RETURNS tsvector
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
    RETURN pg_catalog.to_tsvector(
        pg_catalog.concat('pg_catalog.', p_language)::pg_catalog.regconfig, pg_catalog.left(p_text, 100000)
    );
END
$$;

COMMENT ON FUNCTION memory.search_vector IS 'The words of a text by the rules of a language, as they are searched.';
