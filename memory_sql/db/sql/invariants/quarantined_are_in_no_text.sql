-- Rule 8: what is quarantined was removed from the text, and waits: no live version holds it, and nothing is made of it but
-- what another source, which isn't quarantined, says alone as well.
SELECT
    a.agent_id,
    format('o%s-%s', t.scope_id, t.seq) AS key,
    format('quarantined, but passed by the text (done_seq %s) and not waiting', s.done_seq) AS detail
FROM memory.observation_states t
JOIN memory.observations o USING (agent_key, scope_id, seq)
JOIN memory.scopes s USING (agent_key, scope_id)
JOIN memory.agents a USING (agent_key)
WHERE t.status = 'quarantined' AND o.lane = 'absorb' AND t.seq <= s.done_seq AND NOT t.repend
UNION ALL
SELECT a.agent_id, format('o%s-%s', l.scope_id, l.seq), format('stands, but was made of o%s-%s', t.scope_id, t.seq)
FROM memory.observation_states t
JOIN memory.lineage l ON (l.agent_key, l.source_scope_id, l.source_seq) = (t.agent_key, t.scope_id, t.seq)
JOIN memory.agents a ON a.agent_key = t.agent_key
LEFT JOIN memory.observation_states d ON (d.agent_key, d.scope_id, d.seq) = (l.agent_key, l.scope_id, l.seq)
WHERE t.status = 'quarantined' AND coalesce(d.status, 'active') = 'active'
  AND NOT (l.whole AND EXISTS (
      SELECT
      FROM memory.lineage m
      LEFT JOIN memory.observation_states u
          ON (u.agent_key, u.scope_id, u.seq) = (m.agent_key, m.source_scope_id, m.source_seq)
      WHERE (m.agent_key, m.scope_id, m.seq) = (l.agent_key, l.scope_id, l.seq) AND m.whole
        AND u.status IS DISTINCT FROM 'quarantined'
  ))
