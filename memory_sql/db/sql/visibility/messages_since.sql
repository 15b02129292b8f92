-- memory.messages_since(agent, conversation, since, as_of): the messages of a conversation that a search may show to users who
-- may see the conversation (memory.visible_conversations). One row per message that has its text, that formation reads, whose
-- retention isn't over (it was stored after `since`, see memory.retention_start, whether or not the sweep has run; or it is kept verbatim), that had
-- been stored at as_of, that isn't withdrawn, and that is evidence for no observation that is set aside other than by
-- withdrawal. The function is inlined into the calling query: columns that aren't read cost nothing, and a message is found
-- by its number with the primary key. The evidence is looked up for each: who needs a few of many takes the others off before.
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
