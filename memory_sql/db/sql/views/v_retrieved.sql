-- memory.v_retrieved: which observations were retrieved. One row per observation, day (UTC) and surface for which a search
-- found it and the result showed it. Observations in a text, or shown because they are new or pinned, don't count. Counts
-- are written as those of v_retrieval are, kept for 90 days (count_days), and forgotten with the observation. For whom the
-- search was, and what it asked, isn't stored anywhere.
CREATE OR REPLACE VIEW memory.v_retrieved WITH (security_invoker = true) AS
SELECT
    a.agent_id,
    'o' || r.scope_id::text || '-' || r.seq::text AS observation_id,
    r.scope_id,
    r.seq,
    s.kind AS scope_kind,
    nullif(substr(s.owner, 3), '') AS owner_id,
    nullif(s.name, '') AS scope_name,
    r.day,
    r.surface,
    r.times
FROM memory.observation_retrievals r
JOIN memory.agents a ON a.agent_key = r.agent_key
JOIN memory.scopes s ON s.agent_key = r.agent_key AND s.scope_id = r.scope_id
WHERE NOT EXISTS (
    SELECT FROM memory.observation_states t
    WHERE (t.agent_key, t.scope_id, t.seq) = (r.agent_key, r.scope_id, r.seq) AND t.withdrawn_by IS NOT NULL
);

COMMENT ON VIEW memory.v_retrieved IS
    'One row per observation, day (UTC) and surface: how often a search found it and the result showed it.';

COMMENT ON COLUMN memory.v_retrieved.agent_id IS 'The host''s id for the agent.';
COMMENT ON COLUMN memory.v_retrieved.observation_id IS 'o12-3: scope_id and seq, as in the API and the context.';
COMMENT ON COLUMN memory.v_retrieved.scope_id IS 'The scope''s number: the API''s s12 is 12 here.';
COMMENT ON COLUMN memory.v_retrieved.seq IS 'Number of the observation within the scope.';
COMMENT ON COLUMN memory.v_retrieved.scope_kind IS 'individual (one user), group, collective (all users), conversation, entity, agent or guideline.';
COMMENT ON COLUMN memory.v_retrieved.owner_id IS 'The host''s id for the user, group, conversation or entity that owns the scope; null: a collective, agent or guideline scope.';
COMMENT ON COLUMN memory.v_retrieved.scope_name IS 'Name of the scope, if it is an additional one; null: the owner''s main scope.';
COMMENT ON COLUMN memory.v_retrieved.day IS 'The day, in UTC.';
COMMENT ON COLUMN memory.v_retrieved.surface IS 'What it was found for: context, search or digest.';
COMMENT ON COLUMN memory.v_retrieved.times IS 'How many of these showed it that day because a search had found it; at least 1.';
