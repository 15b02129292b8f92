-- memory.v_contradictions: what a newer observation says otherwise, as the model that consolidated them named it. One row per
-- contradiction that a version of a scope's text named.
-- older_id: the observation that no longer holds; null where the text before said it. live: false where the version was
-- undone, and the older observation is active again. held: it waits for a person. older_status: what it is now; null where there is none.
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
    coalesce(i.held, false) AS held,
    CASE WHEN o.seq IS NOT NULL THEN coalesce(t.status, 'active') END AS older_status,
    c.model,
    c.run_id
FROM memory.consolidations c
JOIN memory.scopes s ON s.agent_key = c.agent_key AND s.scope_id = c.scope_id
JOIN memory.agents a ON a.agent_key = c.agent_key
CROSS JOIN LATERAL jsonb_to_recordset(c.contradictions) AS i (newer integer, older integer, was text, now text, held boolean)
LEFT JOIN memory.observations o ON o.agent_key = c.agent_key AND o.scope_id = c.scope_id AND o.seq = i.older
LEFT JOIN memory.observation_states t ON t.agent_key = c.agent_key AND t.scope_id = c.scope_id AND t.seq = i.older;

COMMENT ON VIEW memory.v_contradictions IS
    'One row per contradiction that a version of a scope''s text named: what counts, what it superseded, in the model''s words.';
