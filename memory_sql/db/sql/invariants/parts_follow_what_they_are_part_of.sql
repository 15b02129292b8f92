-- What an observation is a part of exists in its scope. While that is in use itself, or set aside, its part is not in use: nothing is
-- told twice, and nothing stands of what doesn't. A part is no less private.
SELECT
    a.agent_id,
    format('o%s-%s', p.scope_id, p.seq) AS key,
    CASE WHEN o.seq IS NULL THEN format('a part of %s, which is missing', p.part_of)
        WHEN memory.in_use(t.status) THEN format('in use, beside %s, of which it is a part', o.seq)
        WHEN memory.is_aside(t.status) THEN format('in use, a part of %s, which is %s', o.seq, t.status)
        ELSE format('less private than %s, of which it is a part', o.seq) END AS detail
FROM memory.observations p
JOIN memory.agents a USING (agent_key)
LEFT JOIN memory.observation_states q USING (agent_key, scope_id, seq)
LEFT JOIN memory.observations o ON (o.agent_key, o.scope_id, o.seq) = (p.agent_key, p.scope_id, p.part_of)
LEFT JOIN memory.observation_states t ON (t.agent_key, t.scope_id, t.seq) = (p.agent_key, p.scope_id, p.part_of)
WHERE p.part_of IS NOT NULL AND (
    o.seq IS NULL
    OR memory.in_use(q.status) AND (memory.in_use(t.status) OR memory.is_aside(t.status))
    OR o.no_propagate AND NOT p.no_propagate OR o.confidential AND NOT p.confidential
    OR array_position('{public,private,sensitive}'::text[], o.sensitivity)
        > array_position('{public,private,sensitive}'::text[], p.sensitivity)
)
