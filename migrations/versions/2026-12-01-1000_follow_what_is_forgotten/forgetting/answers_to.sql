CREATE OR REPLACE FUNCTION memory.answers_to(p_agent bigint, p_conversation_ids text[], p_numbers bigint[])
RETURNS TABLE (conversation_id text, number bigint)
LANGUAGE sql STABLE AS $$
    SELECT DISTINCT a.conversation_id, a.number
    FROM unnest(p_conversation_ids, p_numbers) AS k (conversation_id, number)
    CROSS JOIN LATERAL (
        SELECT FROM memory.messages m
        WHERE (m.agent_key, m.conversation_id, m.number) = (p_agent, k.conversation_id, k.number) AND m.user_id IS NOT NULL
        OFFSET 0
    ) asked
    CROSS JOIN LATERAL (
        SELECT m.number
        FROM memory.messages m
        WHERE m.agent_key = p_agent AND m.conversation_id = k.conversation_id AND m.number > k.number AND m.user_id IS NULL
        ORDER BY m.number LIMIT 1
    ) first
    CROSS JOIN LATERAL (
        SELECT m.conversation_id, m.number
        FROM memory.messages m
        WHERE m.agent_key = p_agent AND m.conversation_id = k.conversation_id AND m.number >= first.number AND m.number < coalesce((
            SELECT u.number
            FROM memory.messages u
            WHERE u.agent_key = p_agent AND u.conversation_id = k.conversation_id AND u.number > first.number AND u.user_id IS NOT NULL
            ORDER BY u.number LIMIT 1
        ), 9223372036854775807)
          AND (m.content IS NOT NULL OR m.content_hash IS NOT NULL OR m.speaker IS NOT NULL)
        OFFSET 0
    ) a
$$;
COMMENT ON FUNCTION memory.answers_to IS 'What the agent and its tools answered to these messages of users; one row per message.';
