-- A conversation that was given up names a dead run of its own. Every dead formation is the one that its conversation names.
-- Every dead consolidation read a single observation of its scope, the one that was set aside.
SELECT
    a.agent_id,
    'conversation ' || t.conversation_id AS key,
    format('dead_run_id %s, which is %s', t.dead_run_id, coalesce(r.state, 'missing')) AS detail
FROM memory.conversations t
JOIN memory.agents a USING (agent_key)
LEFT JOIN memory.runs r ON r.agent_key = t.agent_key AND r.run_id = t.dead_run_id
WHERE t.dead_run_id IS NOT NULL AND (r.state, r.conversation_id) IS DISTINCT FROM ('dead', t.conversation_id)
UNION ALL
SELECT
    a.agent_id,
    'run ' || r.run_id,
    format('dead, but dead_run_id of its conversation is %s', coalesce(t.dead_run_id::text, 'none'))
FROM memory.runs r
JOIN memory.agents a USING (agent_key)
LEFT JOIN memory.conversations t USING (agent_key, conversation_id)
WHERE r.state = 'dead' AND r.kind = 'formation' AND r.run_id IS DISTINCT FROM t.dead_run_id
UNION ALL
SELECT
    a.agent_id,
    'run ' || r.run_id,
    format('dead, read those after %s up to %s, of %s', r.from_seq, r.to_seq, s.last_seq)
FROM memory.runs r
JOIN memory.agents a USING (agent_key)
JOIN memory.scopes s USING (agent_key, scope_id)
WHERE r.state = 'dead' AND r.kind = 'consolidation'
  AND (r.to_seq = r.from_seq + 1 AND r.to_seq <= s.last_seq) IS NOT TRUE
