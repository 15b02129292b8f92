CREATE OR REPLACE FUNCTION memory.messages_since(
    p_agent bigint, p_conversation text, p_since timestamptz, p_as_of timestamptz
) RETURNS SETOF memory.messages
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT m.*
    FROM memory.messages m
    WHERE m.agent_key = p_agent AND m.conversation_id = p_conversation
      AND memory.is_kept(m, p_since, p_as_of)
      AND NOT EXISTS (
          SELECT FROM memory.evidence e
          JOIN LATERAL (  -- each by its key, whatever the planner thinks of how many there are
              SELECT t.status FROM memory.observation_states t
              WHERE (t.agent_key, t.scope_id, t.seq) = (e.agent_key, e.scope_id, e.seq) OFFSET 0
          ) t ON memory.is_aside(t.status) AND t.status <> 'withdrawn'
          WHERE e.agent_key = m.agent_key AND e.conversation_id = m.conversation_id AND e.number = m.number OFFSET 0
      )
$$;
COMMENT ON FUNCTION memory.messages_since(bigint, text, timestamptz, timestamptz) IS
    'The messages of a conversation, stored since a given time, that a search may show; one row per message.';
