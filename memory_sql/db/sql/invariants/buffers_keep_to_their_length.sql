-- A scope's buffer has at most buffer_max active observations: older ones have been evicted.
SELECT a.agent_id, format('s%s', s.scope_id) AS key, format('%s of %s', n.active, s.buffer_max) AS detail
FROM memory.scopes s
JOIN memory.agents a USING (agent_key)
CROSS JOIN LATERAL (
    SELECT count(*) AS active
    FROM memory.observations o
    LEFT JOIN memory.observation_states t ON t.agent_key = o.agent_key AND t.scope_id = o.scope_id AND t.seq = o.seq
    WHERE o.agent_key = s.agent_key AND o.scope_id = s.scope_id AND o.lane = 'buffer' AND memory.in_use(t.status)
) n
WHERE s.lanes <> 'absorb' AND n.active > s.buffer_max
