CREATE OR REPLACE FUNCTION memory.conversation_owner(
    p_agent text, p_user text, p_conversation text, p_as_of timestamptz
) RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN ARRAY(
        SELECT 's:' || t.conversation_id
        FROM memory.agents a
        JOIN memory.conversations t ON t.agent_key = a.agent_key
        WHERE a.agent_id = p_agent AND t.conversation_id = p_conversation AND NOT t.excluded
          AND t.participants && ARRAY(SELECT i.user_id FROM memory.user_ids(a.agent_key, p_user, p_as_of) i)
          AND NOT EXISTS (SELECT FROM memory.left_groups(a.agent_key, p_user, p_as_of, t.group_ids) OFFSET 0)
    );
END
$$;
COMMENT ON FUNCTION memory.conversation_owner(text, text, text, timestamptz) IS
    'The owner of a conversation''s scope, if a user of an agent may see it; one value.';
