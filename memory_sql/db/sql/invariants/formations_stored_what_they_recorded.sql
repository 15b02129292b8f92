-- A formation, propagation or import stored as many observations as it recorded, less those forgotten since, which the run
-- counts. One that didn't succeed stored none, and no other kind of run stored any. A part of an observation names the run
-- of that, which didn't store it.
SELECT
    a.agent_id,
    'run ' || r.run_id AS key,
    format('%s observations recorded, %s of them forgotten, %s there', coalesce(r.observations, 0), r.forgotten,
           coalesce(o.observations, 0)) AS detail
FROM memory.runs r
JOIN memory.agents a USING (agent_key)
LEFT JOIN (
    SELECT agent_key, run_id, count(*) AS observations
    FROM memory.observations
    WHERE run_id IS NOT NULL AND part_of IS NULL
    GROUP BY agent_key, run_id
) o USING (agent_key, run_id)
WHERE coalesce(o.observations, 0)
      <> CASE WHEN r.kind = 'consolidation' THEN 0 ELSE coalesce(r.observations, 0) - r.forgotten END
