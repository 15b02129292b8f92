-- The formations that ended (also with nothing, also put aside) cover a session's messages up to formed_number, each once:
-- their ranges follow one another from 0 to it without gap or overlap.
WITH ended AS (
    SELECT agent_key, session_id, run_id, from_number, to_number,
           coalesce(lag(to_number) OVER in_order, 0) AS reached
    FROM memory.runs
    WHERE kind = 'formation' AND state IN ('succeeded', 'empty', 'discarded')
    WINDOW in_order AS (PARTITION BY agent_key, session_id ORDER BY from_number, to_number, run_id)
)
SELECT
    a.agent_id,
    'session ' || r.session_id AS key,
    format('run %s read the messages after %s up to %s, those before it ended at %s', r.run_id, r.from_number,
           r.to_number, r.reached) AS detail
FROM ended r
JOIN memory.agents a USING (agent_key)
WHERE r.from_number IS DISTINCT FROM r.reached OR r.to_number IS NULL OR r.to_number <= r.from_number
UNION ALL
SELECT
    a.agent_id,
    'session ' || s.session_id,
    format('formed up to %s, the runs ended at %s', s.formed_number, coalesce(r.reached, 0))
FROM memory.sessions s
JOIN memory.agents a USING (agent_key)
LEFT JOIN (
    SELECT agent_key, session_id, max(to_number) AS reached FROM ended GROUP BY agent_key, session_id
) r USING (agent_key, session_id)
WHERE s.formed_number <> coalesce(r.reached, 0)
