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
    'One row per agent, day (UTC), kinds of scopes, outcome and reason: observations judged, observations stored, people.';
COMMENT ON COLUMN memory.v_propagation_flow.agent_id IS 'The host''s id for the agent.';
COMMENT ON COLUMN memory.v_propagation_flow.day IS 'The day, in UTC, of the newest decision.';
COMMENT ON COLUMN memory.v_propagation_flow.from_kind IS 'Kind of the narrower scopes, where the observations are: individual or group.';
COMMENT ON COLUMN memory.v_propagation_flow.to_kind IS 'Kind of the wider scopes, for which they were judged: group or collective.';
COMMENT ON COLUMN memory.v_propagation_flow.outcome IS 'propagated, refused, waiting (too few say so yet), held (for a person) or released (by a person, to be judged again).';
COMMENT ON COLUMN memory.v_propagation_flow.reason IS 'Why, in one word: shared, known, personal, too_few_people, burst, reviewed …';
COMMENT ON COLUMN memory.v_propagation_flow.observations IS 'Number of observations judged, counted once for each wider scope.';
COMMENT ON COLUMN memory.v_propagation_flow.stored IS 'Number of observations of the wider scopes that now say the same; several may share one.';
COMMENT ON COLUMN memory.v_propagation_flow.people IS 'Number of users whose individual scopes they come from; 0: they come from groups.';
