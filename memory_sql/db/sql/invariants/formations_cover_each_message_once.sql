-- The formations that ended (including empty and discarded ones), and those of another system, cover each message of a
-- conversation up to formed_number exactly once: their ranges follow one another from 0 to formed_number without gap or
-- overlap. A retired formation doesn't count, because another one has read its messages again.
WITH ended AS (
    SELECT agent_key, conversation_id, run_id, from_number, to_number,
           coalesce(lag(to_number) OVER in_order, 0) AS reached
    FROM memory.runs
    WHERE kind IN ('formation', 'import') AND conversation_id IS NOT NULL
      AND state IN ('succeeded', 'empty', 'discarded')
    WINDOW in_order AS (PARTITION BY agent_key, conversation_id ORDER BY from_number, to_number, run_id)
)
SELECT
    a.agent_id,
    'conversation ' || r.conversation_id AS key,
    format('run %s read the messages after %s up to %s, those before it ended at %s', r.run_id, r.from_number,
           r.to_number, r.reached) AS detail
FROM ended r
JOIN memory.agents a USING (agent_key)
WHERE r.from_number IS DISTINCT FROM r.reached OR r.to_number IS NULL OR r.to_number <= r.from_number
UNION ALL
SELECT
    a.agent_id,
    'conversation ' || s.conversation_id,
    format('formed up to %s, the runs ended at %s', s.formed_number, coalesce(r.reached, 0))
FROM memory.conversations s
JOIN memory.agents a USING (agent_key)
LEFT JOIN (
    SELECT agent_key, conversation_id, max(to_number) AS reached FROM ended GROUP BY agent_key, conversation_id
) r USING (agent_key, conversation_id)
WHERE s.formed_number <> coalesce(r.reached, 0)
