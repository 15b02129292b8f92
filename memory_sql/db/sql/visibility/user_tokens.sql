-- memory.user_tokens(agent_key, users): what the index of conversations holds, a number per user and agent: a look-up
-- reads nothing of others, nor of namesakes elsewhere. Numbers may coincide: who asks by them compares users as well,
-- and the agent by IS NOT DISTINCT FROM, so that no plan begins with all that the agent has.
CREATE OR REPLACE FUNCTION memory.user_tokens(p_agent bigint, p_users text[]) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (SELECT coalesce(array_agg(hashtextextended(u.user_id, p_agent)), '{}') FROM unnest(p_users) u(user_id));

COMMENT ON FUNCTION memory.user_tokens IS 'Users of an agent as numbers, as an index holds them.';
