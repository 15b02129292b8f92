-- A scope that is due is in use, has something pending, and either has reached its threshold (with something new, if it
-- was undone) or is to be tried again: its newest run failed, or is at it.
SELECT
    a.agent_id,
    'scope ' || s.scope_id AS key,
    format('%s pending, threshold %s, last_seq %s, held_seq %s, newest run %s', p.pending, w.pending, s.last_seq,
           s.held_seq, coalesce(r.state, 'none')) AS detail
FROM memory.scopes s
JOIN memory.agents a USING (agent_key)
CROSS JOIN LATERAL (SELECT coalesce(s.consolidation_threshold, :threshold) AS pending) w
CROSS JOIN LATERAL (
    SELECT count(*) AS pending
    FROM (SELECT FROM memory.pending_observations(s.agent_key, s.scope_id, s.done_seq) LIMIT w.pending) enough
) p
CROSS JOIN LATERAL (
    SELECT (array_agg(r.state ORDER BY r.run_id DESC))[1] AS state
    FROM memory.runs r
    WHERE r.agent_key = s.agent_key AND r.scope_id = s.scope_id
) r
WHERE s.due_at IS NOT NULL
  AND (
      s.dead_run_id IS NOT NULL OR NOT s.is_active OR NOT s.consolidate OR p.pending = 0
      OR (
          (p.pending < w.pending OR s.last_seq <= s.held_seq)
          AND coalesce(r.state, 'none') NOT IN ('failed', 'running', 'answered')
      )
  )
