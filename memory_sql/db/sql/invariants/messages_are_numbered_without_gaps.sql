-- The messages of a session are numbered 1, 2, 3 … and last_number is the newest's: what was acknowledged is there.
SELECT
    a.agent_id,
    'session ' || s.session_id AS key,
    format('%s messages up to number %s, last_number %s', coalesce(m.messages, 0), coalesce(m.newest, 0), s.last_number)
        AS detail
FROM memory.sessions s
JOIN memory.agents a USING (agent_key)
LEFT JOIN (
    SELECT agent_key, session_id, count(*) AS messages, max(number) AS newest
    FROM memory.messages
    GROUP BY agent_key, session_id
) m USING (agent_key, session_id)
WHERE s.last_number <> coalesce(m.messages, 0) OR s.last_number <> coalesce(m.newest, 0)
