-- Who has written in a conversation is one of its participants: by these, what a user said is found. What a hold has kept of
-- somebody who was forgotten is found by itself.
SELECT
    a.agent_id,
    format('conversation %s, message %s', s.conversation_id, m.number) AS key,
    'its user is no participant' AS detail
FROM memory.messages m
JOIN memory.conversations s USING (agent_key, conversation_id)
JOIN memory.agents a USING (agent_key)
WHERE m.user_id IS NOT NULL AND m.user_id <> ALL (s.participants) AND m.withdrawn_by IS NULL
  AND (m.content IS NOT NULL OR m.content_hash IS NOT NULL OR m.speaker IS NOT NULL)
