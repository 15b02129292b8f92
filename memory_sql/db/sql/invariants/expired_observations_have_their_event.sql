-- What has expired or is resolved has an event that says why: evicted since its time was over, or archived. What is
-- evicted and has such a time (expires_at) was evicted for that.
SELECT a.agent_id, format('o%s-%s', t.scope_id, t.seq) AS key, format('%s, and no event says why', t.status) AS detail
FROM memory.observation_states t
JOIN memory.agents a USING (agent_key)
CROSS JOIN LATERAL (
    SELECT CASE WHEN t.status = 'evicted' AND t.expires_at IS NOT NULL THEN '{speculative,resolved}'::text[]
                WHEN t.status = 'archived' AND t.resolved IS NOT NULL THEN '{expired,resolve}' END AS whys
) w
WHERE w.whys IS NOT NULL AND NOT EXISTS (
    SELECT FROM memory.events e
    WHERE e.agent_key = t.agent_key AND e.scope_id = t.scope_id AND e.seq = t.seq AND e.kind = 'status'
      AND e.detail ->> 'to' = t.status AND e.detail ->> 'why' = ANY (w.whys)
)
