-- memory.searched_scopes(agent, user, conversation, as_of, scope): what a search looks into. One row per scope: what the principal
-- may see, or of that the one scope that is named. Without a user it is that scope, for the library's own work: not in a transaction
-- that was entered as a user, nor in one that serves another agent.
CREATE OR REPLACE FUNCTION memory.searched_scopes(
    p_agent text, p_user text, p_conversation text, p_as_of timestamptz, p_scope bigint
) RETURNS TABLE (agent_key bigint, scope_id bigint)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT v.agent_key, v.scope_id
    FROM memory.visible_scopes(p_agent, p_user, p_conversation, p_as_of) v
    WHERE p_scope IS NULL OR v.scope_id = p_scope
    UNION ALL
    SELECT s.agent_key, s.scope_id
    FROM memory.agents a
    JOIN memory.scopes s ON s.agent_key = a.agent_key AND s.scope_id = p_scope
    WHERE a.agent_id = p_agent AND p_user IS NULL
      AND (memory.principal() IS NULL OR memory.serves_all() OR coalesce(memory.principal() ->> 'serves' = p_agent, false))
$$;

COMMENT ON FUNCTION memory.searched_scopes IS 'The scopes that a search looks into; one row per scope.';
