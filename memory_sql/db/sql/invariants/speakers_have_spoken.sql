-- Every speaker that a scope names is the speaker of one of its observations that isn't withdrawn: no name outlives the
-- observations that it comes from.
SELECT
    a.agent_id,
    format('scope %s', s.scope_id) AS key,
    format('%s of %s speakers speak in no observation', count(*), cardinality(s.speakers)) AS detail
FROM memory.scopes s
JOIN memory.agents a USING (agent_key)
CROSS JOIN unnest(s.speakers) AS n (name)
WHERE NOT EXISTS (
    SELECT FROM memory.observations o
    LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq)
    WHERE o.agent_key = s.agent_key AND o.scope_id = s.scope_id AND o.speaker = n.name AND t.withdrawn_by IS NULL
)
GROUP BY a.agent_id, s.scope_id, s.speakers
