-- The owner of a message is the user of its session: by it the message is found.
SELECT
    a.agent_id,
    format('session %s, message %s', s.session_id, m.number) AS key,
    format('an owner of %s characters, not the session''s user', length(m.owner)) AS detail
FROM memory.messages m
JOIN memory.sessions s USING (agent_key, session_id)
JOIN memory.agents a USING (agent_key)
WHERE m.owner <> 'u:' || s.user_id
