-- If the text of an individual or group scope has absorbed observations since it was last judged for wider scopes, the scope
-- is due for propagation.
SELECT
    a.agent_id,
    'scope ' || s.scope_id AS key,
    format('version %s, judged up to version %s', s.version, s.propagated_version) AS detail
FROM memory.scopes s
JOIN memory.agents a USING (agent_key)
WHERE s.kind IN ('individual', 'group') AND s.propagate_at IS NULL
  AND EXISTS (
      SELECT FROM memory.consolidations c
      WHERE c.agent_key = s.agent_key AND c.scope_id = s.scope_id AND c.live AND c.version > s.propagated_version
        AND (c.to_seq > c.from_seq OR cardinality(c.extra_seqs) > 0)
  )
