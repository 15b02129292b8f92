-- The messages of a conversation are numbered 1, 2, 3 … without gaps, and last_number is the number of the newest: every
-- acknowledged message is there.
SELECT
    a.agent_id,
    'conversation ' || s.conversation_id AS key,
    format('%s messages up to number %s, last_number %s', coalesce(m.messages, 0), coalesce(m.newest, 0), s.last_number)
        AS detail
FROM memory.conversations s
JOIN memory.agents a USING (agent_key)
LEFT JOIN (
    SELECT agent_key, conversation_id, count(*) AS messages, max(number) AS newest
    FROM memory.messages
    GROUP BY agent_key, conversation_id
) m USING (agent_key, conversation_id)
WHERE s.last_number <> coalesce(m.messages, 0) OR s.last_number <> coalesce(m.newest, 0)
