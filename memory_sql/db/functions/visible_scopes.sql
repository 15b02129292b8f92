-- memory.visible_scopes(agent, user, session, as_of): what a principal may see. One row per scope. The only place where
-- that is decided; every read joins it. A null user or agent sees nothing. A group is visible to whoever is a member now
-- (and was one at as_of); a session's scope to those who took part in it. Inactive scopes are included. A user is all the
-- ids that they go by (memory.user_ids).
CREATE OR REPLACE FUNCTION memory.visible_scopes(
    p_agent text, p_user text, p_session text DEFAULT NULL, p_as_of timestamptz DEFAULT NULL
) RETURNS TABLE (agent_key bigint, scope_id bigint)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT s.agent_key, s.scope_id
    FROM memory.agents a
    JOIN memory.scopes s ON s.agent_key = a.agent_key
    WHERE a.agent_id = p_agent
      AND p_user IS NOT NULL
      AND s.owner = ANY (
          ARRAY['c', 'a']
          || ARRAY(SELECT 'u:' || i.user_id FROM memory.user_ids(a.agent_key, p_user, p_as_of) i)
          || ARRAY(
              SELECT g.owner
              FROM memory.user_ids(a.agent_key, p_user, p_as_of) i
              JOIN memory.members m ON m.agent_key = a.agent_key AND m.user_id = i.user_id
              JOIN memory.scopes g ON g.agent_key = m.agent_key AND g.scope_id = m.scope_id
              WHERE m.left_at IS NULL AND g.kind = 'group'
                AND (p_as_of IS NULL OR m.joined_at <= p_as_of)
          )
          || ARRAY(
              SELECT 's:' || t.session_id
              FROM memory.sessions t
              WHERE t.agent_key = a.agent_key AND t.session_id = p_session
                AND t.participants && ARRAY(SELECT i.user_id FROM memory.user_ids(a.agent_key, p_user, p_as_of) i)
          )
      )
$$;

COMMENT ON FUNCTION memory.visible_scopes(text, text, text, timestamptz) IS
    'The scopes that a user of an agent may see; one row per scope.';
