CREATE OR REPLACE FUNCTION memory.user_tokens(p_agent bigint, p_users text[]) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (SELECT coalesce(array_agg(hashtextextended(u.user_id, p_agent)), '{}') FROM unnest(p_users) u(user_id));
COMMENT ON FUNCTION memory.user_tokens IS 'Users of an agent as the numbers that an index contains.';
