-- memory.visible_scopes(agent, user, conversation, as_of): the scopes that a principal may see. One row per scope. This is
-- the only place where that is decided; every read joins it. A null user or agent sees nothing. A group is visible to its
-- current members (who were members at as_of). A conversation's scope is visible to those who took part in it and have left
-- none of its groups, unless the conversation is excluded (memory.conversation_owner). The agent's own scopes (collective,
-- agent, guideline) are visible to all users. An entity scope is visible only to the user with its id: what a user knows
-- about a thing is in the user's own named scopes. Inactive scopes are included. All ids of a user count (memory.user_ids).
-- The agent and the owners are looked up once per query, whatever its plan starts with. In a transaction that was entered as
-- a user, nobody else sees anything (memory.asks_for).
CREATE OR REPLACE FUNCTION memory.visible_scopes(
    p_agent text, p_user text, p_conversation text DEFAULT NULL, p_as_of timestamptz DEFAULT NULL
) RETURNS TABLE (agent_key bigint, scope_id bigint)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT s.agent_key, s.scope_id
    FROM memory.scopes s
    WHERE s.agent_key = (SELECT a.agent_key FROM memory.agents a WHERE a.agent_id = p_agent)
      AND p_user IS NOT NULL
      AND memory.asks_for(p_agent, p_user)
      AND s.owner = ANY (
          ARRAY['c', 'a', 'p']
          || ARRAY(
              SELECT o.owner
              FROM memory.agents a
              CROSS JOIN LATERAL (  -- all at once: Postgres 17 and later read each page of an index once
                  SELECT ARRAY(SELECT i.user_id FROM memory.user_ids(a.agent_key, p_user, p_as_of) i) AS ids OFFSET 0
              ) u
              CROSS JOIN LATERAL (
                  SELECT unnest(ARRAY['u:' || i.user_id, 'e:' || i.user_id]) FROM unnest(u.ids) i(user_id)
                  UNION ALL
                  SELECT g.owner
                  FROM (  -- by their keys, in this order, whatever the planner thinks of how many there are
                      SELECT m.scope_id
                      FROM memory.members m
                      WHERE m.agent_key = a.agent_key AND m.user_id = ANY (u.ids) AND m.left_at IS NULL
                        AND (p_as_of IS NULL OR m.joined_at <= p_as_of OR EXISTS (  -- before they left and came back
                            SELECT
                            FROM memory.members e
                            WHERE e.agent_key = a.agent_key AND e.scope_id = m.scope_id AND e.user_id = m.user_id
                              AND e.joined_at <= p_as_of AND e.left_at > p_as_of
                        ))
                      OFFSET 0
                  ) m
                  CROSS JOIN LATERAL (
                      SELECT g.owner
                      FROM memory.scopes g
                      WHERE g.agent_key = a.agent_key AND g.scope_id = m.scope_id AND g.kind = 'group'
                      LIMIT 1
                  ) g
              ) o (owner)
              WHERE a.agent_id = p_agent
          )
          || (  -- once per query, and planned only if a conversation is given
              SELECT CASE
                  WHEN p_conversation IS NOT NULL
                  THEN memory.conversation_owner(p_agent, p_user, p_conversation, p_as_of)
              END
          )
      )
$$;

COMMENT ON FUNCTION memory.visible_scopes IS 'The scopes that a user of an agent may see; one row per scope.';
