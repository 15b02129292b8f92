-- A live version has absorbed as many observations as its run recorded: its extras and those in its range, without the
-- ones that it passed over (still pending, or an extra of a later version). (An import records all that it stored.)
WITH listed AS (
    SELECT DISTINCT c.agent_key, c.scope_id, e.seq
    FROM memory.consolidations c
    CROSS JOIN LATERAL unnest(c.extra_seqs) AS e (seq)
    WHERE c.live
), passed AS (  -- passed over by the version whose range has them
    SELECT c.agent_key, c.scope_id, c.version, count(*) AS observations
    FROM (
        SELECT agent_key, scope_id, seq FROM listed
        UNION SELECT agent_key, scope_id, seq FROM memory.observation_states WHERE repend
    ) e
    JOIN memory.observations o USING (agent_key, scope_id, seq)
    JOIN memory.consolidations c ON c.agent_key = o.agent_key AND c.scope_id = o.scope_id
    WHERE o.lane = 'absorb' AND c.live AND o.seq > c.from_seq AND o.seq <= c.to_seq
    GROUP BY c.agent_key, c.scope_id, c.version
)
SELECT
    a.agent_id,
    format('s%sv%s', c.scope_id, c.version) AS key,
    format('run %s recorded %s observations, %s are absorbed', r.run_id, r.observations, n.absorbed) AS detail
FROM memory.consolidations c
JOIN memory.agents a USING (agent_key)
JOIN memory.runs r USING (agent_key, run_id)
LEFT JOIN passed p ON p.agent_key = c.agent_key AND p.scope_id = c.scope_id AND p.version = c.version
CROSS JOIN LATERAL (
    SELECT count(*) - coalesce(p.observations, 0) + cardinality(c.extra_seqs) AS absorbed
    FROM memory.observations o
    WHERE o.agent_key = c.agent_key AND o.scope_id = c.scope_id AND o.seq > c.from_seq AND o.seq <= c.to_seq
      AND o.lane = 'absorb'
) n
WHERE c.live AND r.kind <> 'import' AND r.observations IS DISTINCT FROM n.absorbed
