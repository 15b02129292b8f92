-- Rule 1: an observation of the absorb lane is exactly one of: after the watermark; passed over (repend) at or below it;
-- absorbed by one live version, which lists it among its extras or else holds it in its range. So none is lost or doubled.
-- The ranges that hold an observation are counted in one sweep over the numbers of its scope.
WITH listed AS (
    SELECT c.agent_key, c.scope_id, e.seq, count(*) AS versions
    FROM memory.consolidations c
    CROSS JOIN LATERAL unnest(c.extra_seqs) AS e (seq)
    WHERE c.live
    GROUP BY c.agent_key, c.scope_id, e.seq
), marks (agent_key, scope_id, seq, place, opened) AS (
    SELECT agent_key, scope_id, seq, 2 * seq::bigint, 0 FROM memory.observations WHERE lane = 'absorb'
    UNION ALL
    SELECT agent_key, scope_id, NULL, 2 * from_seq::bigint + 1, 1
    FROM memory.consolidations
    WHERE live AND to_seq > from_seq
    UNION ALL
    SELECT agent_key, scope_id, NULL, 2 * to_seq::bigint + 1, -1
    FROM memory.consolidations
    WHERE live AND to_seq > from_seq
), swept AS (
    SELECT agent_key, scope_id, seq, sum(opened) OVER (PARTITION BY agent_key, scope_id ORDER BY place) AS ranges
    FROM marks
)
SELECT
    a.agent_id,
    format('o%s-%s', o.scope_id, o.seq) AS key,
    format('done_seq %s, repend %s, an extra of %s live versions, in the range of %s', s.done_seq,
           coalesce(t.repend, false)::int, coalesce(l.versions, 0), o.ranges) AS detail
FROM swept o
JOIN memory.scopes s USING (agent_key, scope_id)
JOIN memory.agents a USING (agent_key)
LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq)
LEFT JOIN listed l USING (agent_key, scope_id, seq)
WHERE o.seq IS NOT NULL
  AND 1 <> (o.seq > s.done_seq)::int
      + (o.seq <= s.done_seq AND coalesce(t.repend, false))::int
      + coalesce(l.versions, 0)
      + CASE WHEN l.versions IS NULL AND NOT coalesce(t.repend, false) THEN o.ranges ELSE 0 END
