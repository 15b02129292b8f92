-- Rules 2 and 5: each live version of a scope begins where the one before it ended, from 0 up to done_seq; a version that
-- only rewrites the text has an empty range in between. An extra comes before the range of the version that lists it.
WITH live AS (
    SELECT agent_key, scope_id, version, from_seq, to_seq, extra_seqs,
           coalesce(lag(to_seq) OVER in_order, 0) AS reached
    FROM memory.consolidations
    WHERE live
    WINDOW in_order AS (PARTITION BY agent_key, scope_id ORDER BY version)
)
SELECT
    a.agent_id,
    format('s%sv%s', v.scope_id, v.version) AS key,
    format('from %s to %s, the one before ended at %s, %s extras', v.from_seq, v.to_seq, v.reached,
           cardinality(v.extra_seqs)) AS detail
FROM live v
JOIN memory.agents a USING (agent_key)
WHERE v.from_seq <> v.reached OR v.to_seq < v.from_seq
   OR NOT (v.from_seq >= ALL (v.extra_seqs) AND 0 < ALL (v.extra_seqs))
UNION ALL
SELECT
    a.agent_id,
    'scope ' || s.scope_id,
    format('done_seq %s, the live versions end at %s', s.done_seq, coalesce(v.reached, 0))
FROM memory.scopes s
JOIN memory.agents a USING (agent_key)
LEFT JOIN (SELECT agent_key, scope_id, max(to_seq) AS reached FROM live GROUP BY agent_key, scope_id) v
    USING (agent_key, scope_id)
WHERE s.done_seq <> coalesce(v.reached, 0)
