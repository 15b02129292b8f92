-- The run that a row of evidence names exists. There is no foreign key for this, since during an import it would look up the
-- same few runs millions of times.
SELECT
    a.agent_id,
    format('evidence %s', e.evidence_id) AS key,
    format('0 runs %s', e.run_id) AS detail
FROM memory.evidence e
JOIN memory.agents a USING (agent_key)
WHERE e.run_id IS NOT NULL
  AND NOT EXISTS (SELECT FROM memory.runs r WHERE r.agent_key = e.agent_key AND r.run_id = e.run_id)
