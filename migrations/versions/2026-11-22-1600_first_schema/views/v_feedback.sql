CREATE OR REPLACE VIEW memory.v_feedback WITH (security_invoker = true) AS
SELECT
    a.agent_id,
    'o' || f.scope_id::text || '-' || f.seq::text AS observation_id,
    f.scope_id,
    f.seq,
    s.kind AS scope_kind,
    nullif(substr(s.owner, 3), '') AS owner_id,
    nullif(s.name, '') AS scope_name,
    f.day,
    f.total,
    f.times
FROM memory.observation_feedback f
JOIN memory.agents a ON a.agent_key = f.agent_key
JOIN memory.scopes s ON s.agent_key = f.agent_key AND s.scope_id = f.scope_id
WHERE NOT EXISTS (
    SELECT FROM memory.observation_states t
    WHERE (t.agent_key, t.scope_id, t.seq) = (f.agent_key, f.scope_id, f.seq) AND t.withdrawn_by IS NOT NULL
);
COMMENT ON VIEW memory.v_feedback IS 'One row per observation and day (UTC): what was thought of it.';
COMMENT ON COLUMN memory.v_feedback.agent_id IS 'The host''s id for the agent.';
COMMENT ON COLUMN memory.v_feedback.observation_id IS 'o12-3: scope_id and seq, as in the API and the context.';
COMMENT ON COLUMN memory.v_feedback.scope_id IS 'The scope''s number: the API''s s12 is 12 here.';
COMMENT ON COLUMN memory.v_feedback.seq IS 'Number of the observation within the scope.';
COMMENT ON COLUMN memory.v_feedback.scope_kind IS 'individual (one user), group, collective (all users), conversation, entity, agent or guideline.';
COMMENT ON COLUMN memory.v_feedback.owner_id IS 'The host''s id for the user, group, conversation or entity that owns the scope; null: a collective, agent or guideline scope.';
COMMENT ON COLUMN memory.v_feedback.scope_name IS 'Name of the scope, if it is an additional one; null: the owner''s main scope.';
COMMENT ON COLUMN memory.v_feedback.day IS 'The day, in UTC.';
COMMENT ON COLUMN memory.v_feedback.total IS 'The sum of what was said that day, each from -1 (of no use) to 1 (useful).';
COMMENT ON COLUMN memory.v_feedback.times IS 'How often something was said that day; at least 1.';
