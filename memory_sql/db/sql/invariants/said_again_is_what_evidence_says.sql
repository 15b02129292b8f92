-- When an observation was said again is what its evidence says, in its state and beside its text: the last time, if that was after it
-- was said first.
WITH said AS (
    SELECT e.agent_key, e.scope_id, e.seq, max(e.said_at) AS at
    FROM memory.evidence e
    WHERE e.said_at IS NOT NULL AND e.withdrawn_by IS NULL
    GROUP BY e.agent_key, e.scope_id, e.seq
), looked AS (
    SELECT agent_key, scope_id, seq FROM said
    UNION SELECT agent_key, scope_id, seq FROM memory.observations WHERE said_again_at IS NOT NULL
    UNION SELECT agent_key, scope_id, seq FROM memory.observation_states WHERE said_again_at IS NOT NULL
)
SELECT
    a.agent_id,
    format('o%s-%s', o.scope_id, o.seq) AS key,
    format('said again at %s, by its state %s, by its evidence %s', o.said_again_at, t.said_again_at, s.at) AS detail
FROM looked l
JOIN memory.observations o USING (agent_key, scope_id, seq)
JOIN memory.agents a USING (agent_key)
LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq)
LEFT JOIN said s USING (agent_key, scope_id, seq)
WHERE o.said_again_at IS DISTINCT FROM t.said_again_at
   OR o.said_again_at IS DISTINCT FROM CASE WHEN s.at > o.observed_at THEN s.at END
