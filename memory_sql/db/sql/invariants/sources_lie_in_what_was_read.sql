-- The evidence that a formation stored consists of messages that it read: in its conversation and its range, or in another
-- short conversation that was formed by the same call, whose own run had begun when this one ended.
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
      r.state NOT IN ('succeeded', 'retired')
      OR (e.conversation_id IS DISTINCT FROM r.conversation_id OR e.number <= r.from_number OR e.number > r.to_number)
      AND NOT EXISTS (
          SELECT FROM memory.runs w
          WHERE w.agent_key = r.agent_key AND w.conversation_id = e.conversation_id AND w.kind = 'formation'
            AND e.number > w.from_number AND e.number <= w.to_number
            AND w.conversation_id <> r.conversation_id AND w.started_at <= r.finished_at
      )
  )
UNION ALL
SELECT a.agent_id, format('o%s-%s', o.scope_id, o.seq), format('run %s read another conversation', r.run_id)
FROM memory.observations o
JOIN memory.runs r USING (agent_key, run_id)
JOIN memory.agents a USING (agent_key)
WHERE r.kind <> 'import'
  AND o.conversation_id IS DISTINCT FROM r.conversation_id
