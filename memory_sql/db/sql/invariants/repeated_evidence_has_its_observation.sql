-- Evidence that was taken over from an observation saying the same is deleted with that observation. So that observation
-- exists, in the same scope, and is a different one.
SELECT
    a.agent_id,
    format('o%s-%s', e.scope_id, e.seq) AS key,
    format('evidence %s is taken from %s', e.evidence_id, e.repeated_seq) AS detail
FROM memory.evidence e
JOIN memory.agents a USING (agent_key)
WHERE e.repeated_seq = e.seq
   OR e.repeated_seq IS NOT NULL AND NOT EXISTS (
       SELECT FROM memory.observations o
       WHERE o.agent_key = e.agent_key AND o.scope_id = e.scope_id AND o.seq = e.repeated_seq
   )
