-- What is withdrawn belongs to a forgetting that the events record, and an open hold keeps it. The evidence of a withdrawn
-- observation is withdrawn as well. (what_is_set_aside_is_in_no_text checks that it is in no text.)
WITH withdrawn AS (
    SELECT t.agent_key, format('o%s-%s', t.scope_id, t.seq) AS key, t.withdrawn_by
    FROM memory.observation_states t
    WHERE t.withdrawn_by IS NOT NULL
    UNION ALL
    SELECT m.agent_key, format('conversation %s, message %s', m.conversation_id, m.number), m.withdrawn_by
    FROM memory.messages m
    WHERE m.withdrawn_by IS NOT NULL
    UNION ALL
    SELECT e.agent_key, format('evidence %s', e.evidence_id), e.withdrawn_by
    FROM memory.evidence e
    WHERE e.withdrawn_by IS NOT NULL
)
SELECT a.agent_id, w.key, 'withdrawn, but nobody asked for that' AS detail
FROM withdrawn w
JOIN memory.agents a USING (agent_key)
WHERE NOT EXISTS (
    SELECT FROM memory.events v WHERE v.agent_key = w.agent_key AND v.detail ->> 'id' = w.withdrawn_by
)
UNION ALL
SELECT a.agent_id, CASE
    WHEN r.seq IS NOT NULL THEN format('o%s-%s', r.scope_id, r.seq)
    WHEN r.number IS NOT NULL THEN format('conversation %s, message %s', r.conversation_id, r.number)
    WHEN r.evidence_id IS NOT NULL THEN format('evidence %s', r.evidence_id)
    ELSE format('forgetting %s', r.withdrawn_by)
END, 'withdrawn, but no open hold keeps it'
FROM memory.agents a
CROSS JOIN LATERAL memory.released(a.agent_key) r
UNION ALL
SELECT a.agent_id, format('o%s-%s', e.scope_id, e.seq), 'withdrawn, but not what supports it'
FROM memory.evidence e
JOIN memory.observation_states t USING (agent_key, scope_id, seq)
JOIN memory.agents a USING (agent_key)
WHERE t.withdrawn_by IS NOT NULL AND e.withdrawn_by IS NULL
