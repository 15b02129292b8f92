-- memory.v_pending: the backlog of consolidation. One row per scope that has pending observations.
CREATE OR REPLACE VIEW memory.v_pending WITH (security_invoker = true) AS
SELECT
    a.agent_id,
    s.scope_id,
    s.kind AS scope_kind,
    nullif(substr(s.owner, 3), '') AS owner_id,
    nullif(s.name, '') AS scope_name,
    p.pending,
    p.oldest_at,
    now() - p.oldest_at AS oldest_age,
    s.due_at,
    coalesce(s.lease_until > clock_timestamp(), false) AS in_progress,
    s.version,
    s.consolidated_at
FROM memory.scopes s
JOIN memory.agents a ON a.agent_key = s.agent_key
CROSS JOIN LATERAL (
    SELECT count(*) AS pending, min(w.created_at) AS oldest_at
    FROM memory.pending_since(s.agent_key, s.scope_id, s.done_seq) w
) p
WHERE p.pending > 0;

COMMENT ON VIEW memory.v_pending IS 'One row per scope with pending observations, which wait for its next consolidation.';

COMMENT ON COLUMN memory.v_pending.agent_id IS 'The host''s id for the agent.';
COMMENT ON COLUMN memory.v_pending.scope_id IS 'The scope''s number: the API''s s12 is 12 here.';
COMMENT ON COLUMN memory.v_pending.scope_kind IS 'individual (one user), group, collective (all users), conversation, entity, agent or guideline.';
COMMENT ON COLUMN memory.v_pending.owner_id IS 'The host''s id for the user, group, conversation or entity that owns the scope; null: a collective, agent or guideline scope.';
COMMENT ON COLUMN memory.v_pending.scope_name IS 'Name of the scope, if it is an additional one; null: the owner''s main scope.';
COMMENT ON COLUMN memory.v_pending.pending IS 'Number of observations that wait for the scope''s next consolidation; at least 1.';
COMMENT ON COLUMN memory.v_pending.oldest_at IS 'When the oldest of them was stored.';
COMMENT ON COLUMN memory.v_pending.oldest_age IS 'Time since oldest_at, as an interval.';
COMMENT ON COLUMN memory.v_pending.due_at IS 'When a consolidation is due; null: too few are pending, or the scope isn''t consolidated.';
COMMENT ON COLUMN memory.v_pending.in_progress IS 'True: a worker holds the scope''s lease.';
COMMENT ON COLUMN memory.v_pending.version IS 'Current version of the scope''s text; 0: none.';
COMMENT ON COLUMN memory.v_pending.consolidated_at IS 'When the text last changed; null: never.';
