-- A run has an end, an error code and a yield exactly if its state says so: an error code if it failed, was given up or was
-- discarded; a yield if it succeeded or was empty. Empty means that nothing was stored and nothing was already known. A
-- retired formation keeps the yield that it had, if any; a text that a person let in may absorb nothing, and a recheck never does.
SELECT
    a.agent_id,
    'run ' || r.run_id AS key,
    format('%s: %s finished_at, %s error_code, %s observations, %s duplicates', r.state, num_nonnulls(r.finished_at),
           num_nonnulls(r.error_code), coalesce(r.observations::text, 'no'), coalesce(r.duplicates::text, 'no'))
        AS detail
FROM memory.runs r
JOIN memory.agents a USING (agent_key)
WHERE (r.state IN ('running', 'answered')) <> (r.finished_at IS NULL)
   OR (r.state IN ('failed', 'dead', 'discarded')) <> (r.error_code IS NOT NULL)
   OR r.state <> 'retired' AND (r.state IN ('succeeded', 'empty')) <> (r.observations IS NOT NULL)
   OR (r.state = 'succeeded' AND r.observations + coalesce(r.duplicates, 0) < 1
       AND (r.kind <> 'consolidation' OR r.calls > 0) AND r.kind <> 'recheck')
   OR (r.state = 'empty' AND r.observations + coalesce(r.duplicates, 0) <> 0)
