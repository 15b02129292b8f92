-- Every active observation that was propagated to the collective scope is supported by at least two groups and three
-- people, and none of its sources is quarantined.
SELECT
    a.agent_id,
    format('o%s-%s', o.scope_id, o.seq) AS key,
    format('%s people, %s groups, %s sources set aside', p.people, g.groups, g.set_aside) AS detail
FROM memory.observations o
JOIN memory.agents a ON a.agent_key = o.agent_key
JOIN memory.scopes s ON s.agent_key = o.agent_key AND s.scope_id = o.scope_id AND s.kind = 'collective'
LEFT JOIN memory.observation_states t ON (t.agent_key, t.scope_id, t.seq) = (o.agent_key, o.scope_id, o.seq)
CROSS JOIN LATERAL (
    SELECT count(DISTINCT b.person) AS people
    FROM memory.people_behind(o.agent_key, ARRAY[o.scope_id], ARRAY[o.seq], 0) b
) p
CROSS JOIN LATERAL (
    SELECT count(DISTINCT l.source_scope_id) AS groups, count(*) FILTER (WHERE u.status = 'quarantined') AS set_aside
    FROM memory.lineage l
    LEFT JOIN memory.observation_states u
        ON (u.agent_key, u.scope_id, u.seq) = (l.agent_key, l.source_scope_id, l.source_seq)
    WHERE (l.agent_key, l.scope_id, l.seq) = (o.agent_key, o.scope_id, o.seq)
) g
WHERE o.source_kind = 'propagation' AND memory.in_use(t.status)
  AND (p.people < 3 OR g.groups < 2 OR g.set_aside > 0)
