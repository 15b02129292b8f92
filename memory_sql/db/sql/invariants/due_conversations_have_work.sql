-- A conversation that is due has messages that no formation has read, isn't excluded and hasn't been given up.
SELECT
    a.agent_id,
    'conversation ' || s.conversation_id AS key,
    format('%s messages after number %s, excluded %s, dead_run_id %s', s.last_number - s.formed_number, s.formed_number,
           s.excluded::int, coalesce(s.dead_run_id::text, 'none')) AS detail
FROM memory.conversations s
JOIN memory.agents a USING (agent_key)
WHERE s.due_at IS NOT NULL AND (s.excluded OR s.dead_run_id IS NOT NULL OR s.last_number <= s.formed_number)
