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
    FROM (
        SELECT a.agent_key, memory.retention_start(a.settings, p_days, p_at) AS since
        FROM memory.agents a
        WHERE a.agent_id = p_agent
        OFFSET 0
    ) a
    CROSS JOIN LATERAL memory.messages_since(a.agent_key, p_conversation, a.since, p_as_of) m
$$;

COMMENT ON FUNCTION memory.retained_messages IS 'The messages of a conversation that a search may show; one row per message.';
