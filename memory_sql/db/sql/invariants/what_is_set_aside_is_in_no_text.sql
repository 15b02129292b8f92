-- Rule 8: an observation that is set aside was removed from the text, and is passed over: no live version has absorbed it.
SELECT
    a.agent_id,
    format('o%s-%s', t.scope_id, t.seq) AS key,
    format('%s, but passed by the text (done_seq %s) and not waiting', t.status, s.done_seq) AS detail
FROM memory.observation_states t
JOIN memory.observations o USING (agent_key, scope_id, seq)
JOIN memory.scopes s USING (agent_key, scope_id)
JOIN memory.agents a USING (agent_key)
WHERE memory.is_aside(t.status) AND o.lane = 'absorb' AND t.seq <= s.done_seq AND NOT t.repend
