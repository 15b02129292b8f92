-- Exactly the runs that wait to apply a model's raw answer keep it, and such a run starts where formation of its
-- conversation has got to.
SELECT
    a.agent_id,
    'run ' || r.run_id AS key,
    format('%s, an answer of %s characters, from number %s of %s', r.state, coalesce(length(r.answer)::text, 'no'),
           coalesce(r.from_number::text, 'none'), coalesce(s.formed_number::text, 'none')) AS detail
FROM memory.runs r
JOIN memory.agents a USING (agent_key)
LEFT JOIN memory.conversations s USING (agent_key, conversation_id)
WHERE (r.state = 'answered') <> (r.answer IS NOT NULL)
   OR (r.state = 'answered' AND r.from_number IS DISTINCT FROM s.formed_number)
