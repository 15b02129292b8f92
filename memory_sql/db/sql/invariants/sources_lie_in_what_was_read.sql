-- The evidence that a formation stored consists of messages that it read: in its conversation and its range.
SELECT
    a.agent_id,
    format('o%s-%s', e.scope_id, e.seq) AS key,
    format('evidence %s is message %s, run %s read those after %s up to %s of its conversation', e.evidence_id,
           coalesce(e.number::text, 'none'), r.run_id, r.from_number, r.to_number) AS detail
FROM memory.evidence e
JOIN memory.runs r USING (agent_key, run_id)
JOIN memory.agents a USING (agent_key)
WHERE r.kind <> 'import'  -- an import reads another store
  AND (
      e.conversation_id IS DISTINCT FROM r.conversation_id OR e.number <= r.from_number OR e.number > r.to_number
      OR r.state NOT IN ('succeeded', 'retired')
  )
UNION ALL
SELECT a.agent_id, format('o%s-%s', o.scope_id, o.seq), format('run %s read another conversation', r.run_id)
FROM memory.observations o
JOIN memory.runs r USING (agent_key, run_id)
JOIN memory.agents a USING (agent_key)
WHERE r.kind <> 'import'
  AND o.conversation_id IS DISTINCT FROM r.conversation_id
