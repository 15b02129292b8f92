-- memory.visible_conversations(agent, user, as_of): the conversations whose messages a principal may see. One row per conversation, with
-- whose it is (`messages.owner`). Beside memory.visible_scopes the only place where that is decided. Who took part sees
-- what was said; who is a member of the group in which it was said, and wasn't there, doesn't. Nor does, of a conversation that
-- takes place in a group, who has left that group (memory.left_groups). A user is all the ids that they go by
-- (memory.user_ids). Nothing of a conversation that is excluded, nor of one that wasn't there at as_of.
-- The agent, the ids and the groups are looked up once a query, whatever it begins with. As in memory.visible_scopes, who is
-- entered as a user asks for nobody else.
CREATE OR REPLACE FUNCTION memory.visible_conversations(p_agent text, p_user text, p_as_of timestamptz DEFAULT NULL)
RETURNS TABLE (agent_key bigint, conversation_id text, owner text)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT s.agent_key, s.conversation_id, 'u:' || s.user_id
    FROM memory.conversations s
    WHERE s.agent_key = (SELECT a.agent_key FROM memory.agents a WHERE a.agent_id = p_agent)
      AND s.participants && ARRAY(
          SELECT i.user_id
          FROM memory.agents a
          CROSS JOIN LATERAL memory.user_ids(a.agent_key, p_user, p_as_of) i
          WHERE a.agent_id = p_agent
      )
      AND NOT s.excluded
      AND memory.asks_for(p_agent, p_user)
      AND NOT s.group_ids && ARRAY(
          SELECT l.group_id
          FROM memory.agents a
          CROSS JOIN LATERAL memory.left_groups(a.agent_key, p_user, p_as_of) l
          WHERE a.agent_id = p_agent
      )
      AND (p_as_of IS NULL OR s.created_at <= p_as_of)
$$;

COMMENT ON FUNCTION memory.visible_conversations(text, text, timestamptz) IS
    'The conversations whose messages a user of an agent may see; one row per conversation.';
