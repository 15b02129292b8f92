-- A version that a model wrote names a consolidation of its scope that succeeded with the same range, and no other version
-- names that run.
SELECT
    a.agent_id,
    format('s%sv%s', c.scope_id, c.version) AS key,
    format('run %s read those after %s up to %s, the version covers %s to %s, %s versions name the run', r.run_id,
           r.from_seq, r.to_seq, c.from_seq, c.to_seq, c.of_the_run) AS detail
FROM (
    SELECT agent_key, scope_id, version, from_seq, to_seq, run_id,
           count(*) OVER (PARTITION BY agent_key, run_id) AS of_the_run
    FROM memory.consolidations
    WHERE run_id IS NOT NULL
) c
JOIN memory.runs r USING (agent_key, run_id)
JOIN memory.agents a USING (agent_key)
WHERE (r.scope_id, r.from_seq, r.to_seq, r.state) IS DISTINCT FROM (c.scope_id, c.from_seq, c.to_seq, 'succeeded')
   OR c.of_the_run > 1
