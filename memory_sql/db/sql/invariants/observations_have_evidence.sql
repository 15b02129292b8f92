-- Every observation is supported by at least one message, or by the word of a person or the host.
SELECT
    a.agent_id,
    format('o%s-%s', o.scope_id, o.seq) AS key,
    '0 rows of evidence' AS detail
FROM memory.observations o
JOIN memory.agents a USING (agent_key)
WHERE NOT EXISTS (
    SELECT FROM memory.evidence e WHERE e.agent_key = o.agent_key AND e.scope_id = o.scope_id AND e.seq = o.seq
)
