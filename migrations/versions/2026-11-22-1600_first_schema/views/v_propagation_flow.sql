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
COMMENT ON COLUMN memory.v_propagation_flow.agent_id IS 'The host''s id of the agent.';
COMMENT ON COLUMN memory.v_propagation_flow.day IS 'The day in UTC on which it was decided; of what was judged again, the last time.';
COMMENT ON COLUMN memory.v_propagation_flow.from_kind IS 'Kind of the scopes from which: individual or group.';
COMMENT ON COLUMN memory.v_propagation_flow.to_kind IS 'Kind of the scopes to which: group or collective.';
COMMENT ON COLUMN memory.v_propagation_flow.outcome IS 'propagated, refused, waiting (too few say so yet), held (for a person) or released (by one, to be judged again).';
COMMENT ON COLUMN memory.v_propagation_flow.reason IS 'Why, in a word: shared, known, personal, too_few_people, burst, reviewed …';
COMMENT ON COLUMN memory.v_propagation_flow.observations IS 'Observations that were judged, once for each wider scope.';
COMMENT ON COLUMN memory.v_propagation_flow.stored IS 'Observations of the wider scopes that they have become; several may be one.';
COMMENT ON COLUMN memory.v_propagation_flow.people IS 'Users whose scopes they come from; 0: of groups.';
