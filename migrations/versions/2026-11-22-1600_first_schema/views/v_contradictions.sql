CREATE OR REPLACE VIEW memory.v_contradictions WITH (security_invoker = true) AS
SELECT
    a.agent_id,
    c.scope_id,
    s.kind AS scope_kind,
    nullif(substr(s.owner, 3), '') AS owner_id,
    nullif(s.name, '') AS scope_name,
    c.version,
    c.live,
    c.created_at,
    'o' || c.scope_id::text || '-' || i.newer::text AS newer_id,
    'o' || c.scope_id::text || '-' || i.older::text AS older_id,
    i.was,
    i.now,
    i.still,
    coalesce(i.held, false) AS held,
    CASE WHEN o.seq IS NOT NULL THEN coalesce(t.status, 'active') END AS older_status,
    c.model,
    c.run_id
FROM memory.consolidations c
JOIN memory.scopes s ON s.agent_key = c.agent_key AND s.scope_id = c.scope_id
JOIN memory.agents a ON a.agent_key = c.agent_key
CROSS JOIN LATERAL jsonb_to_recordset(c.contradictions) AS i (
    newer integer, older integer, was text, now text, still text, held boolean
)
LEFT JOIN memory.observations o ON o.agent_key = c.agent_key AND o.scope_id = c.scope_id AND o.seq = i.older
LEFT JOIN memory.observation_states t ON t.agent_key = c.agent_key AND t.scope_id = c.scope_id AND t.seq = i.older;
COMMENT ON VIEW memory.v_contradictions IS
    'One row per contradiction that a version of a scope''s text named: the newer and the older observation, in the model''s words.';
COMMENT ON COLUMN memory.v_contradictions.agent_id IS 'The host''s id for the agent.';
COMMENT ON COLUMN memory.v_contradictions.scope_id IS 'The scope''s number: the API''s s12 is 12 here.';
COMMENT ON COLUMN memory.v_contradictions.scope_kind IS 'individual (one user), group, collective (all users), conversation, entity, agent or guideline.';
COMMENT ON COLUMN memory.v_contradictions.owner_id IS 'The host''s id for the user, group, conversation or entity that owns the scope; null: a collective, agent or guideline scope.';
COMMENT ON COLUMN memory.v_contradictions.scope_name IS 'Name of the scope, if it is an additional one; null: the owner''s main scope.';
COMMENT ON COLUMN memory.v_contradictions.version IS 'The version of the scope''s text that named the contradiction.';
COMMENT ON COLUMN memory.v_contradictions.live IS 'False: that version was undone, or replaced after a forgetting.';
COMMENT ON COLUMN memory.v_contradictions.created_at IS 'When that version was written.';
COMMENT ON COLUMN memory.v_contradictions.newer_id IS 'observation_id of the newer observation, the one that counts.';
COMMENT ON COLUMN memory.v_contradictions.older_id IS 'observation_id of the older observation; null: the contradicted statement was in the previous text.';
COMMENT ON COLUMN memory.v_contradictions.was IS 'What was true before, in a few words of the model; null: it gave none.';
COMMENT ON COLUMN memory.v_contradictions.now IS 'What is true now, in a few words of the model; null: it gave none.';
COMMENT ON COLUMN memory.v_contradictions.still IS 'What else the older observation says and still holds, in the words of the model; null: nothing.';
COMMENT ON COLUMN memory.v_contradictions.held IS 'True: the version would have superseded too much at once, so the contradiction was held for a person.';
COMMENT ON COLUMN memory.v_contradictions.older_status IS 'Current status of the older observation; null: there is none, or it was forgotten.';
COMMENT ON COLUMN memory.v_contradictions.model IS 'The model that named it.';
COMMENT ON COLUMN memory.v_contradictions.run_id IS 'The run in which it was named.';
