CREATE OR REPLACE FUNCTION memory.search_vector(p_language text, p_text text) RETURNS tsvector
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
    RETURN pg_catalog.to_tsvector(
        pg_catalog.concat('pg_catalog.', p_language)::pg_catalog.regconfig, pg_catalog.left(p_text, 100000)
    );
END
$$;
COMMENT ON FUNCTION memory.search_vector IS 'The words of a text by the rules of a language, as they are searched.';
