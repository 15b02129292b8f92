-- The owner of a message is the user of its conversation; searches find the message by it.
SELECT
    a.agent_id,
    format('conversation %s, message %s', s.conversation_id, m.number) AS key,
    format('an owner of %s characters, not the conversation''s user', length(m.owner)) AS detail
FROM memory.messages m
JOIN memory.conversations s USING (agent_key, conversation_id)
JOIN memory.agents a USING (agent_key)
WHERE m.owner <> 'u:' || s.user_id
