-- The observation that superseded another exists, in the same scope, and the chain of superseding observations ends: no
-- observation is superseded by itself through others.
WITH RECURSIVE line AS (
    SELECT agent_key, scope_id, seq, superseded_by AS next
    FROM memory.observation_states
    WHERE superseded_by IS NOT NULL
    UNION
    SELECT l.agent_key, l.scope_id, l.seq, t.superseded_by
    FROM line l
    JOIN memory.observation_states t ON (t.agent_key, t.scope_id, t.seq) = (l.agent_key, l.scope_id, l.next)
    WHERE t.superseded_by IS NOT NULL AND l.next <> l.seq
)
SELECT
    a.agent_id,
    format('o%s-%s', l.scope_id, l.seq) AS key,
    CASE WHEN l.next = l.seq THEN 'superseded by itself, by way of others'
        ELSE format('superseded by %s, which is missing', l.next) END AS detail
FROM line l
JOIN memory.agents a USING (agent_key)
LEFT JOIN memory.observations o ON (o.agent_key, o.scope_id, o.seq) = (l.agent_key, l.scope_id, l.next)
WHERE l.next = l.seq OR o.seq IS NULL
