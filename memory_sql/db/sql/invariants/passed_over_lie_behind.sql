-- Rule 5: only observations at or below done_seq are marked as passed over (repend); those after it are pending anyway.
SELECT a.agent_id, format('o%s-%s', t.scope_id, t.seq) AS key, format('done_seq %s', s.done_seq) AS detail
FROM memory.observation_states t
JOIN memory.scopes s USING (agent_key, scope_id)
JOIN memory.agents a USING (agent_key)
WHERE t.repend AND t.seq > s.done_seq
