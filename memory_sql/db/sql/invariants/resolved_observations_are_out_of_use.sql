-- What is resolved is out of use: archived, evicted, or set aside. Since when it is resolved, is known.
SELECT a.agent_id, format('o%s-%s', t.scope_id, t.seq) AS key,
       CASE WHEN t.resolved_at IS NULL THEN 'resolved, nobody knows since when'
           ELSE format('resolved, but %s', t.status) END AS detail
FROM memory.observation_states t
JOIN memory.agents a USING (agent_key)
WHERE t.resolved IS NOT NULL AND (t.resolved_at IS NULL OR t.status IN ('active', 'superseded'))
