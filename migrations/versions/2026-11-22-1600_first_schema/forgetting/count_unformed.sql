CREATE OR REPLACE FUNCTION memory.count_unformed(p_agent bigint, p_conversation_ids text[]) RETURNS void
LANGUAGE sql VOLATILE AS $$
    UPDATE memory.conversations t
    SET epoch = t.epoch + 1,
        unformed_messages = coalesce(m.messages, 0),
        unformed_tokens = coalesce(m.tokens, 0),
        unformed_since = m.oldest,
        due_at = CASE WHEN m.messages > 0 THEN t.due_at END,
        due_reason = CASE WHEN m.messages > 0 THEN t.due_reason END
    FROM unnest(p_conversation_ids) AS k (conversation_id)
    LEFT JOIN LATERAL (
        SELECT count(*)::integer AS messages, sum(m.weight)::real AS tokens, min(m.created_at) AS oldest
        FROM memory.messages m
        JOIN memory.conversations f USING (agent_key, conversation_id)
        WHERE m.agent_key = p_agent AND m.conversation_id = k.conversation_id AND m.number > f.formed_number AND m.eligible
          AND m.content IS NOT NULL
    ) m ON true
    WHERE t.agent_key = p_agent AND t.conversation_id = k.conversation_id
$$;
COMMENT ON FUNCTION memory.count_unformed IS
    'Counts anew what waits in these conversations, and makes void what is under way in them.';
