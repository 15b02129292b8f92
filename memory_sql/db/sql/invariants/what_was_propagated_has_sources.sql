-- Every observation that a propagation made has a source, or somebody has said the same in its own scope. If it is active,
-- it is as trustworthy as what a user or the host said (memory.trust). What was judged as propagated exists.
SELECT a.agent_id, format('o%s-%s', o.scope_id, o.seq) AS key, '0 sources' AS detail
FROM memory.observations o
JOIN memory.agents a USING (agent_key)
WHERE o.source_kind = 'propagation' AND NOT EXISTS (
    SELECT FROM memory.lineage l WHERE (l.agent_key, l.scope_id, l.seq) = (o.agent_key, o.scope_id, o.seq)
) AND NOT EXISTS (
    SELECT FROM memory.evidence e
    WHERE (e.agent_key, e.scope_id, e.seq) = (o.agent_key, o.scope_id, o.seq)
      AND (e.user_id IS NOT NULL OR e.conversation_id IS NULL AND e.run_id IS NULL)
)
UNION ALL
SELECT a.agent_id, format('o%s-%s', o.scope_id, o.seq), format('trust %s', memory.trust(o.agent_key, o.scope_id, o.seq))
FROM memory.observations o
JOIN memory.agents a USING (agent_key)
LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq)
WHERE o.source_kind = 'propagation' AND memory.in_use(t.status)
  AND memory.trust(o.agent_key, o.scope_id, o.seq) < 2
UNION ALL
SELECT
    a.agent_id,
    format('o%s-%s', j.source_scope_id, j.source_seq),
    format('went to o%s-%s, which is not there', j.target_scope_id, j.seq)
FROM memory.judged j
JOIN memory.agents a USING (agent_key)
WHERE j.outcome = 'propagated' AND NOT EXISTS (
    SELECT FROM memory.observations o
    WHERE (o.agent_key, o.scope_id, o.seq) = (j.agent_key, j.target_scope_id, j.seq)
)
