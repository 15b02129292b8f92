-- Rule 1: an observation of the absorb lane is in exactly one place: after the watermark; at or below it and passed over
-- (repend); or absorbed by one live version, which lists it among its extras or has it in its range. So none is lost or
-- absorbed twice. The live ranges divide a scope's numbers into pieces. If a piece up to the watermark is in exactly one
-- range, or a piece after it in none, only observations that are listed or passed over can be wrong, so only these are
-- checked there; the other pieces are checked in full.
WITH listed AS (
    SELECT c.agent_key, c.scope_id, e.seq, count(*) AS versions
    FROM memory.consolidations c
    CROSS JOIN LATERAL unnest(c.extra_seqs) AS e (seq)
    WHERE c.live
    GROUP BY c.agent_key, c.scope_id, e.seq
), marks AS (
    SELECT s.agent_key, s.scope_id, m.seq, m.opened
    FROM memory.scopes s
    CROSS JOIN LATERAL (VALUES (0, 0), (s.done_seq, 0)) m (seq, opened)
    UNION ALL
    SELECT c.agent_key, c.scope_id, m.seq, m.opened
    FROM memory.consolidations c
    CROSS JOIN LATERAL (VALUES (c.from_seq, 1), (c.to_seq, -1)) m (seq, opened)
    WHERE c.live AND c.to_seq > c.from_seq
), pieces AS MATERIALIZED (
    SELECT agent_key, scope_id, s.done_seq, m.seq AS behind, coalesce(lead(m.seq) OVER w, 2147483647) AS last,
           sum(m.opened) OVER w AS ranges
    FROM marks m
    JOIN memory.scopes s USING (agent_key, scope_id)
    WINDOW w AS (PARTITION BY agent_key, scope_id ORDER BY m.seq)
), suspected AS (
    SELECT o.agent_key, o.scope_id, o.seq, p.done_seq, p.ranges
    FROM pieces p
    JOIN memory.observations o
        ON o.agent_key = p.agent_key AND o.scope_id = p.scope_id AND o.seq > p.behind AND o.seq <= p.last
    WHERE o.lane = 'absorb' AND p.ranges <> (p.behind < p.done_seq)::integer
    UNION
    SELECT o.agent_key, o.scope_id, o.seq, p.done_seq, p.ranges
    FROM (
        SELECT agent_key, scope_id, seq FROM listed
        UNION SELECT agent_key, scope_id, seq FROM memory.observation_states WHERE repend
    ) e
    JOIN memory.observations o USING (agent_key, scope_id, seq)
    JOIN pieces p ON p.agent_key = o.agent_key AND p.scope_id = o.scope_id AND o.seq > p.behind AND o.seq <= p.last
    WHERE o.lane = 'absorb'
)
SELECT
    a.agent_id,
    format('o%s-%s', o.scope_id, o.seq) AS key,
    format('done_seq %s, repend %s, an extra of %s live versions, in the range of %s', o.done_seq,
           coalesce(t.repend, false)::int, coalesce(l.versions, 0), o.ranges) AS detail
FROM suspected o
JOIN memory.agents a USING (agent_key)
LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq)
LEFT JOIN listed l USING (agent_key, scope_id, seq)
WHERE 1 <> (o.seq > o.done_seq)::int
      + (o.seq <= o.done_seq AND coalesce(t.repend, false))::int
      + coalesce(l.versions, 0)
      + CASE WHEN l.versions IS NULL AND NOT coalesce(t.repend, false) THEN o.ranges ELSE 0 END
