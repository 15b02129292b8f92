-- last_seq is at least the number of the newest observation (numbers of forgotten ones aren't used again), and done_seq and
-- held_seq are at most last_seq.
SELECT
    a.agent_id,
    'scope ' || s.scope_id AS key,
    format('last_seq %s, newest observation %s, done_seq %s, held_seq %s', s.last_seq, coalesce(o.newest, 0),
           s.done_seq, s.held_seq) AS detail
FROM memory.scopes s
JOIN memory.agents a USING (agent_key)
CROSS JOIN LATERAL (
    SELECT max(o.seq) AS newest FROM memory.observations o WHERE o.agent_key = s.agent_key AND o.scope_id = s.scope_id
) o
WHERE s.last_seq < coalesce(o.newest, 0)
   OR s.done_seq NOT BETWEEN 0 AND s.last_seq
   OR s.held_seq NOT BETWEEN 0 AND s.last_seq
