-- A live version has absorbed as many observations as its run recorded: its extras and those in its range, without the
-- ones that it passed over (still waiting, or an extra of a later version). (An import records all that it stored.) The live version whose range holds an
-- observation is found in one sweep over the numbers of its scope.
WITH listed AS (
    SELECT DISTINCT c.agent_key, c.scope_id, e.seq
    FROM memory.consolidations c
    CROSS JOIN LATERAL unnest(c.extra_seqs) AS e (seq)
    WHERE c.live
), marks (agent_key, scope_id, seq, place, opened) AS (
    SELECT agent_key, scope_id, seq, 2 * seq::bigint, 0 FROM memory.observations WHERE lane = 'absorb'
    UNION ALL
    SELECT agent_key, scope_id, NULL, 2 * from_seq::bigint + 1, version
    FROM memory.consolidations
    WHERE live AND to_seq > from_seq
    UNION ALL
    SELECT agent_key, scope_id, NULL, 2 * to_seq::bigint + 1, -version
    FROM memory.consolidations
    WHERE live AND to_seq > from_seq
), swept AS (
    SELECT agent_key, scope_id, seq, sum(opened) OVER (PARTITION BY agent_key, scope_id ORDER BY place) AS version
    FROM marks
), held AS (
    SELECT agent_key, scope_id, o.version, count(*) AS observations
    FROM swept o
    LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq)
    LEFT JOIN listed l USING (agent_key, scope_id, seq)
    WHERE o.seq IS NOT NULL AND o.version > 0 AND NOT coalesce(t.repend, false) AND l.agent_key IS NULL
    GROUP BY agent_key, scope_id, o.version
)
SELECT
    a.agent_id,
    format('s%sv%s', c.scope_id, c.version) AS key,
    format('run %s recorded %s observations, %s are absorbed', r.run_id, r.observations,
           coalesce(h.observations, 0) + cardinality(c.extra_seqs)) AS detail
FROM memory.consolidations c
JOIN memory.agents a USING (agent_key)
JOIN memory.runs r USING (agent_key, run_id)
LEFT JOIN held h ON h.agent_key = c.agent_key AND h.scope_id = c.scope_id AND h.version = c.version
WHERE c.live AND r.kind <> 'import'
  AND r.observations IS DISTINCT FROM coalesce(h.observations, 0) + cardinality(c.extra_seqs)
