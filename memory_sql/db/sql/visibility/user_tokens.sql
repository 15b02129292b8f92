-- memory.user_tokens(agent_key, users): the values in the index of conversations, a number per user and agent. A look-up
-- reads no entries of other users, nor of users of other agents with the same id. Numbers may collide, so a query that uses
-- them also compares the users. It compares the agent with IS NOT DISTINCT FROM, so that no plan starts from all
-- conversations of the agent.
CREATE OR REPLACE FUNCTION memory.user_tokens(p_agent bigint, p_users text[]) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (SELECT coalesce(array_agg(hashtextextended(u.user_id, p_agent)), '{}') FROM unnest(p_users) u(user_id));

COMMENT ON FUNCTION memory.user_tokens IS 'Users of an agent as the numbers that an index contains.';
