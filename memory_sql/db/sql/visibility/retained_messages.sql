-- memory.retained_messages(agent, conversation, days, at, as_of): the messages of a conversation that a search may show
-- to whom may see it (memory.visible_conversations). One row per message: those that have their text, that formation
-- reads, whose retention isn't over at `at`, whether or not the sweep has come by, that had been stored at as_of, and
-- that stand behind no observation that is set aside; what is withdrawn isn't among them. `days` as in
-- memory.retention_start. It is planned as part of the query that asks it: columns that aren't read cost nothing, a
-- number finds its message by the key.
CREATE OR REPLACE FUNCTION memory.retained_messages(
    p_agent text, p_conversation text, p_days double precision, p_at timestamptz, p_as_of timestamptz DEFAULT NULL
) RETURNS SETOF memory.messages
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT m.*
    FROM memory.messages m
    WHERE m.agent_key = (SELECT a.agent_key FROM memory.agents a WHERE a.agent_id = p_agent)
      AND m.conversation_id = p_conversation
      AND m.content IS NOT NULL
      AND m.eligible
      AND m.withdrawn_by IS NULL
      AND m.created_at >= (
          SELECT memory.retention_start(a.settings, p_days, p_at) FROM memory.agents a WHERE a.agent_id = p_agent
      )
      AND (p_as_of IS NULL OR m.created_at <= p_as_of)
      AND NOT EXISTS (
          SELECT
          FROM memory.evidence e
          JOIN memory.observation_states t
              ON t.agent_key = e.agent_key AND t.scope_id = e.scope_id AND t.seq = e.seq AND memory.is_aside(t.status)
                  AND t.status <> 'withdrawn'
          WHERE e.agent_key = m.agent_key AND e.conversation_id = m.conversation_id AND e.number = m.number
      )
$$;

COMMENT ON FUNCTION memory.retained_messages(text, text, double precision, timestamptz, timestamptz) IS
    'The messages of a conversation that a search may show; one row per message.';
