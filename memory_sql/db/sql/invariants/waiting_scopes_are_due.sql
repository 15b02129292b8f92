-- Rule 11: a scope with at least as many pending observations as its threshold, or as many characters, is due, unless it is switched off, or a
-- version was undone and it has gained no observation since: no observation is left behind. A scope that lost its text is
-- due with a single pending observation. If neither scope nor agent has a threshold of its own, that of the process which
-- last checked the scope applies (waits_below).
SELECT
    a.agent_id,
    'scope ' || s.scope_id AS key,
    format('%s or more observations wait', w.pending) AS detail
FROM memory.scopes s
JOIN memory.agents a USING (agent_key)
CROSS JOIN LATERAL (
    SELECT CASE WHEN s.rebuild THEN 1 ELSE coalesce(
        s.consolidation_threshold,
        memory.number_setting(
            a.settings,
            'consolidation_threshold',
            CASE s.waits_below WHEN 2147483647 THEN :threshold ELSE s.waits_below END
        )::integer
    ) END AS pending
) w
WHERE s.due_at IS NULL AND s.is_active AND s.consolidate
  AND (s.rebuild OR s.last_seq > s.held_seq)
  AND (memory.is_long(s.agent_key, s.scope_id, s.done_seq, s.consolidation_characters) OR w.pending <= (
      SELECT count(*)
      FROM (SELECT FROM memory.pending_observations(s.agent_key, s.scope_id, s.done_seq) LIMIT w.pending) enough
  ))
