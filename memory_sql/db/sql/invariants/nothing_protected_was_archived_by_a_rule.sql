-- What the host has protected no sweep archives: the policy that was given last before that isn't
-- protected. (That nothing protected has the stage archived is a constraint of the table.)
SELECT a.agent_id, format('o%s-%s', e.scope_id, e.seq) AS key, format('archived by event %s', e.event_id) AS detail
FROM memory.events e
JOIN memory.agents a USING (agent_key)
WHERE e.kind = 'status' AND e.detail ->> 'why' = 'age' AND (
    SELECT p.detail ->> 'to'
    FROM memory.events p
    WHERE p.agent_key = e.agent_key AND p.scope_id = e.scope_id AND p.seq = e.seq AND p.kind = 'policy'
      AND p.event_id < e.event_id
    ORDER BY p.event_id DESC
    LIMIT 1
) = 'protected'
