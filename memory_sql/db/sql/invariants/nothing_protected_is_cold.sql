-- What the host has protected is hot.
SELECT a.agent_id, format('o%s-%s', o.scope_id, o.seq) AS key, 'protected and cold' AS detail
FROM memory.observations o
JOIN memory.agents a USING (agent_key)
JOIN memory.observation_states t USING (agent_key, scope_id, seq)
WHERE o.cold AND t.policy = 'protected'
