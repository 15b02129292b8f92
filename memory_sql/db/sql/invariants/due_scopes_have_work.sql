-- The converse of rule 11: a scope that is due is active and has reached its threshold of pending observations or characters. If neither scope nor agent has a threshold of its own, that of the process
-- which last checked the scope applies (waits_below), since processes may differ.
SELECT
    a.agent_id,
    'scope ' || s.scope_id AS key,
    format('%s pending, threshold %s, last_seq %s, held_seq %s, active %s, consolidated %s', p.pending, w.pending,
           s.last_seq, s.held_seq, s.is_active::int, s.consolidate::int) AS detail
FROM memory.scopes s
JOIN memory.agents a USING (agent_key)
CROSS JOIN LATERAL (
    SELECT CASE WHEN s.rebuild THEN 1 ELSE coalesce(
        s.consolidation_threshold,
        nullif(s.waits_below, 2147483647),
        memory.number_setting(a.settings, 'consolidation_threshold', :threshold)::integer
    ) END AS pending
) w
CROSS JOIN LATERAL (
    SELECT count(*) AS pending
    FROM (SELECT FROM memory.pending_observations(s.agent_key, s.scope_id, s.done_seq) LIMIT w.pending) enough
) p
WHERE s.due_at IS NOT NULL
  AND (
      NOT s.is_active OR NOT s.consolidate
      OR p.pending < w.pending
           AND memory.is_long(s.agent_key, s.scope_id, s.done_seq, s.consolidation_characters) IS NOT TRUE
  )
