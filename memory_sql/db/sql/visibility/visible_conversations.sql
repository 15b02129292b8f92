-- memory.visible_conversations(agent, user, as_of, conversation): the conversations whose messages a principal may see, or
-- of these only the given one. One row per conversation. Only this function and memory.visible_scopes decide what a
-- principal may see. Participants see what was said in a conversation; members of its group who didn't take part don't, nor
-- do participants who have left one of its groups (memory.left_groups). All ids of a user count (memory.user_ids). Excluded
-- conversations aren't returned, nor those that didn't exist at as_of. As in memory.visible_scopes, a transaction entered
-- as a user can ask only for that user. Ids are looked up once, conversations by memory.user_tokens, a given one by its
-- key, and of the groups that somebody has left only those of the conversations.
CREATE OR REPLACE FUNCTION memory.visible_conversations(
    p_agent text, p_user text, p_as_of timestamptz DEFAULT NULL, p_conversation text DEFAULT NULL
) RETURNS SETOF memory.conversations
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    WITH mine AS MATERIALIZED (
        SELECT s.*
        FROM (
            SELECT a.agent_key, ARRAY(SELECT i.user_id FROM memory.user_ids(a.agent_key, p_user, p_as_of) i) AS users
            FROM memory.agents a WHERE a.agent_id = p_agent AND memory.asks_for(p_agent, p_user) OFFSET 0
        ) a
        CROSS JOIN LATERAL (  -- apart: a plan for any conversation would read all of the user's for a given one
            SELECT s.* FROM memory.conversations s
            WHERE p_conversation IS NULL AND s.agent_key IS NOT DISTINCT FROM a.agent_key
              AND memory.user_tokens(s.agent_key, s.participants) && memory.user_tokens(a.agent_key, a.users)
            UNION ALL
            SELECT s.* FROM memory.conversations s WHERE s.agent_key = a.agent_key AND s.conversation_id = p_conversation
        ) s
        WHERE s.participants && a.users AND NOT s.excluded AND (p_as_of IS NULL OR s.created_at <= p_as_of)
    )
    SELECT s.* FROM mine s CROSS JOIN (
        SELECT ARRAY(
            SELECT l.group_id FROM (SELECT m.agent_key, array_agg(g.id) AS ids FROM mine m CROSS JOIN unnest(m.group_ids) g(id) GROUP BY m.agent_key) g
            CROSS JOIN LATERAL memory.left_groups(g.agent_key, p_user, p_as_of, g.ids) l
        ) AS groups OFFSET 0
    ) gone WHERE NOT s.group_ids && gone.groups
$$;

COMMENT ON FUNCTION memory.visible_conversations(text, text, timestamptz, text) IS
    'The conversations whose messages a user of an agent may see; one row per conversation.';
