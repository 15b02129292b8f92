CREATE OR REPLACE VIEW memory.v_propagation_flow WITH (security_invoker = true) AS
SELECT
    a.agent_id,
    (j.judged_at AT TIME ZONE 'UTC')::date AS day,
    s.kind AS from_kind,
    t.kind AS to_kind,
    j.outcome,
    j.reason,
    count(*) AS observations,
    count(DISTINCT (j.target_scope_id, j.seq)) FILTER (WHERE j.seq IS NOT NULL) AS stored,
    count(DISTINCT s.owner) FILTER (WHERE s.kind = 'individual') AS people
FROM memory.judged j
JOIN memory.agents a ON a.agent_key = j.agent_key
JOIN memory.scopes s ON s.agent_key = j.agent_key AND s.scope_id = j.source_scope_id
JOIN memory.scopes t ON t.agent_key = j.agent_key AND t.scope_id = j.target_scope_id
GROUP BY 1, 2, 3, 4, 5, 6;
COMMENT ON VIEW memory.v_propagation_flow IS
    'One row per agent, day (UTC), kinds of scopes, outcome and reason: observations judged, stored, and of how many people.';
