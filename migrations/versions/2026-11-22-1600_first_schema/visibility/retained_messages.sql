-- memory.retained_messages(agent, user, days, at, as_of): the messages that a search may show a principal. One row per
-- message. Of the conversations that they may see (memory.visible_conversations): those that have their text, that formation reads,
-- whose retention isn't over at `at`, whether or not the sweep has come by, that had been stored at as_of, and that stand
-- behind no observation that is set aside; what is withdrawn isn't among them. `days` as in memory.retention_start. It is planned as part of the query that asks it:
-- columns that aren't read cost nothing, and conditions on agent_key, conversation_id and number find messages by their key.
CREATE OR REPLACE FUNCTION memory.retained_messages(
    p_agent text, p_user text, p_days double precision, p_at timestamptz, p_as_of timestamptz DEFAULT NULL
) RETURNS TABLE (
    agent_key bigint, conversation_id text, number bigint, owner text, message_id text, role text, user_id text, speaker text,
    content text, said_at timestamptz, given_at timestamptz, created_at timestamptz, language text, search tsvector
)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT m.agent_key, m.conversation_id, m.number, m.owner, m.message_id, m.role, m.user_id, m.speaker, m.content, m.said_at,
           m.given_at, m.created_at, m.language, m.search
    FROM memory.visible_conversations(p_agent, p_user, p_as_of) v
    JOIN memory.messages m ON m.agent_key = v.agent_key AND m.conversation_id = v.conversation_id
    WHERE m.content IS NOT NULL
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
    'The messages that a search may show a user of an agent; one row per message.';
