-- The observation that superseded another exists, in the same scope, and the chain of superseding observations ends: no
-- observation is superseded by itself through others. While one of them stands, the observation isn't in use; while none
-- does, it isn't superseded, unless something quarantined or in use says the same. None that is quarantined for its own
-- sake stands, nor one that is archived (but for what is resolved) or withdrawn. What was left behind in a group with what
-- it gave way to stays superseded by that.
WITH RECURSIVE line AS (
    SELECT agent_key, scope_id, seq, superseded_by AS next
    FROM memory.observation_states
    WHERE superseded_by IS NOT NULL
    UNION
    SELECT l.agent_key, l.scope_id, l.seq, t.superseded_by
    FROM line l
    JOIN memory.observation_states t ON (t.agent_key, t.scope_id, t.seq) = (l.agent_key, l.scope_id, l.next)
    WHERE t.superseded_by IS NOT NULL AND l.next <> l.seq
), stands AS (
    SELECT l.agent_key, l.scope_id, l.seq, bool_or(
        n.seq IS NULL OR n.status = 'archived' AND n.resolved IS NOT NULL
        OR n.status NOT IN ('archived', 'withdrawn') AND (n.status <> 'quarantined' OR n.follows)
    ) AS after
    FROM line l
    LEFT JOIN memory.observation_states n ON (n.agent_key, n.scope_id, n.seq) = (l.agent_key, l.scope_id, l.next)
    GROUP BY l.agent_key, l.scope_id, l.seq
)
SELECT
    a.agent_id,
    format('o%s-%s', l.scope_id, l.seq) AS key,
    CASE WHEN l.next = l.seq THEN 'superseded by itself, by way of others'
        ELSE format('superseded by %s, which is missing', l.next) END AS detail
FROM line l
JOIN memory.agents a USING (agent_key)
LEFT JOIN memory.observations o ON (o.agent_key, o.scope_id, o.seq) = (l.agent_key, l.scope_id, l.next)
WHERE l.next = l.seq OR o.seq IS NULL
UNION ALL
SELECT
    a.agent_id,
    format('o%s-%s', s.scope_id, s.seq),
    CASE WHEN s.after THEN 'in use, beside what superseded it' ELSE 'superseded by what is set aside' END
FROM stands s
JOIN memory.agents a USING (agent_key)
JOIN memory.observation_states t USING (agent_key, scope_id, seq)
JOIN memory.observations o USING (agent_key, scope_id, seq)
WHERE CASE WHEN s.after THEN memory.in_use(t.status) ELSE t.status = 'superseded' AND NOT t.follows AND NOT EXISTS (
    SELECT FROM memory.observations u
    LEFT JOIN memory.observation_states q USING (agent_key, scope_id, seq)
    WHERE (u.agent_key, u.scope_id, u.content_hash) = (o.agent_key, o.scope_id, o.content_hash)
      AND u.lane = 'absorb' AND (q.status = 'quarantined' AND NOT q.follows OR memory.in_use(q.status))
) AND NOT (
    EXISTS (
        SELECT FROM memory.observation_states n
        WHERE (n.agent_key, n.scope_id, n.seq) = (t.agent_key, t.scope_id, t.superseded_by) AND n.status = 'archived'
    ) AND (
        SELECT v.detail ->> 'why' FROM memory.events v
        WHERE (v.agent_key, v.scope_id, v.seq) = (t.agent_key, t.scope_id, t.seq) AND v.kind = 'status'
        ORDER BY v.event_id DESC LIMIT 1
    ) IS NOT DISTINCT FROM 'leave'
) END
