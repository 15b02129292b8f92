-- What was superseded gave way to another observation of its scope (which may have been forgotten since).
SELECT
    a.agent_id,
    format('o%s-%s', t.scope_id, t.seq) AS key,
    format('%s, superseded by %s of %s', t.status, t.superseded_by, s.last_seq) AS detail
FROM memory.observation_states t
JOIN memory.scopes s USING (agent_key, scope_id)
JOIN memory.agents a USING (agent_key)
WHERE t.superseded_by = t.seq OR t.superseded_by NOT BETWEEN 1 AND s.last_seq
