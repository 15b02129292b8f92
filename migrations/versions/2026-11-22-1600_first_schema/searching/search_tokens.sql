CREATE OR REPLACE FUNCTION memory.search_tokens(p_space bigint, p_search tsvector) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE COST 10000  -- no plan works them out row by row, rather than read the index
RETURN (
    SELECT coalesce(array_agg(hashtextextended(u.lexeme, p_space)), '{}') FROM unnest(tsvector_to_array(p_search)) u(lexeme)
);
COMMENT ON FUNCTION memory.search_tokens(bigint, tsvector) IS
    'The words of a search vector as numbers, other ones in every space; what the text indexes hold.';
