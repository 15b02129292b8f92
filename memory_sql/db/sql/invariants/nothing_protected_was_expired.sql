-- No sweep takes out of use what is protected. Not what somebody has changed since: it may be protected since then.
SELECT a.agent_id, format('o%s-%s', t.scope_id, t.seq) AS key, format('protected, but %s', e.detail ->> 'why') AS detail
FROM memory.observation_states t
JOIN memory.agents a USING (agent_key)
JOIN memory.events e ON e.agent_key = t.agent_key AND e.scope_id = t.scope_id AND e.seq = t.seq AND e.kind = 'status'
WHERE t.policy = 'protected' AND t.status = e.detail ->> 'to' AND t.status_at = e.created_at
  AND e.detail ->> 'why' IN ('speculative', 'expired', 'resolved')
  AND NOT EXISTS (
      SELECT FROM memory.events n
      WHERE n.agent_key = t.agent_key AND n.scope_id = t.scope_id AND n.seq = t.seq AND n.event_id > e.event_id
        AND n.kind <> 'status'
  )
