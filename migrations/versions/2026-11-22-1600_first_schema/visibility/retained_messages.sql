CREATE OR REPLACE FUNCTION memory.retained_messages(
    p_agent text, p_conversation text, p_days double precision, p_at timestamptz, p_as_of timestamptz DEFAULT NULL
) RETURNS SETOF memory.messages
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT m.*
    FROM (
        SELECT a.agent_key, memory.retention_start(a.settings, p_days, p_at) AS since
        FROM memory.agents a
        WHERE a.agent_id = p_agent
        OFFSET 0
    ) a
    CROSS JOIN LATERAL memory.messages_since(a.agent_key, p_conversation, a.since, p_as_of) m
$$;
COMMENT ON FUNCTION memory.retained_messages IS 'The messages of a conversation that a search may show; one row per message.';
