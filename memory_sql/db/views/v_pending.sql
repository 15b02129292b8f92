-- memory.v_pending: the backlog. One row per scope that has pending observations.
-- oldest_at: when the longest-waiting one was stored; due_at: from when a consolidation is due, null below the threshold.
CREATE OR REPLACE VIEW memory.v_pending AS
SELECT
    a.agent_id,
    s.scope_id,
    s.kind AS scope_kind,
    CASE WHEN s.owner LIKE '_:%' THEN substr(s.owner, 3) END AS owner_id,
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
    SELECT count(*) AS pending, min(o.created_at) AS oldest_at
    FROM memory.pending_observations(s.agent_key, s.scope_id, s.done_seq) o
) p
WHERE p.pending > 0;

COMMENT ON VIEW memory.v_pending IS 'One row per scope with observations that wait for a consolidation.';
