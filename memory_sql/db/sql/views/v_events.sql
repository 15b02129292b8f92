-- memory.v_events: the changes to memory. One row per change by a person, a rule or a run. A row outlives its subject and
-- contains nothing of what was remembered, so roles that may not read texts may read this view. The reason in the words of
-- whoever made the change may contain text and is only in memory.events.reason.
CREATE OR REPLACE VIEW memory.v_events WITH (security_invoker = true) AS
SELECT
    a.agent_id,
    e.event_id,
    e.created_at,
    e.kind,
    e.actor,
    e.scope_id,
    s.kind AS scope_kind,
    nullif(substr(s.owner, 3), '') AS owner_id,
    nullif(s.name, '') AS scope_name,
    'o' || e.scope_id::text || '-' || e.seq::text AS observation_id,
    e.version,
    e.conversation_id,
    e.run_id,
    e.detail
FROM memory.events e
JOIN memory.agents a ON a.agent_key = e.agent_key
LEFT JOIN memory.scopes s ON s.agent_key = e.agent_key AND s.scope_id = e.scope_id;

COMMENT ON VIEW memory.v_events IS
    'One row per change to what is remembered, by a person, a rule or a run; it outlives its subject and holds none of its text.';

COMMENT ON COLUMN memory.v_events.agent_id IS 'The host''s id for the agent.';
COMMENT ON COLUMN memory.v_events.event_id IS 'Number of the event, unique in the database; rises with time.';
COMMENT ON COLUMN memory.v_events.created_at IS 'When it happened.';
COMMENT ON COLUMN memory.v_events.kind IS 'status, verification, privacy, correction, forget, hold, alias, rename, undo …';
COMMENT ON COLUMN memory.v_events.actor IS 'Who did it, as given by the host; null: a rule or a run.';
COMMENT ON COLUMN memory.v_events.scope_id IS 'Number of the scope that it is about, which may be gone; null: none.';
COMMENT ON COLUMN memory.v_events.scope_kind IS 'individual (one user), group, collective (all users), conversation, entity, agent or guideline; null: no scope.';
COMMENT ON COLUMN memory.v_events.owner_id IS 'The host''s id for the user, group, conversation or entity that owns the scope; null: a collective, agent or guideline scope, or no scope.';
COMMENT ON COLUMN memory.v_events.scope_name IS 'Name of the scope, if it is an additional one; null: the owner''s main scope, or no scope.';
COMMENT ON COLUMN memory.v_events.observation_id IS 'The observation that it is about, which may be gone; null: none, or several.';
COMMENT ON COLUMN memory.v_events.version IS 'The version of the scope''s text that it is about; null: none.';
COMMENT ON COLUMN memory.v_events.conversation_id IS 'The host''s id for the conversation that it is about, which may be gone; null: none.';
COMMENT ON COLUMN memory.v_events.run_id IS 'The run that it is about, which may be gone; null: none.';
COMMENT ON COLUMN memory.v_events.detail IS 'Ids, counts and the library''s own words, by name; for status: from, to and why. Never remembered text.';
