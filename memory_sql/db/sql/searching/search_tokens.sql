-- memory.search_tokens(space, search): what the text indexes hold: one number per word and space (a scope, or an owner's
-- messages), so that a look-up reads the words of that space alone, however many others there are. Its body is bound to
-- what it calls: whose path is searched makes no difference to an index.
CREATE OR REPLACE FUNCTION memory.search_tokens(p_space bigint, p_search tsvector) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE COST 10000  -- no plan works them out row by row, rather than read the index
RETURN (
    SELECT coalesce(array_agg(hashtextextended(u.lexeme, p_space)), '{}') FROM unnest(tsvector_to_array(p_search)) u(lexeme)
);

COMMENT ON FUNCTION memory.search_tokens(bigint, tsvector) IS
    'The words of a search vector as numbers, other ones in every space; what the text indexes hold.';
