CREATE OR REPLACE VIEW memory.v_scope_timeline WITH (security_invoker = true) AS
SELECT
    a.agent_id,
    c.scope_id,
    s.kind AS scope_kind,
    nullif(substr(s.owner, 3), '') AS owner_id,
    nullif(s.name, '') AS scope_name,
    c.version,
    c.base,
    c.live,
    c.version = s.version AS is_head,
    c.reason,
    c.created_at,
    c.words,
    coalesce(b.words, 0) AS words_before,
    r.observations AS absorbed,
    c.from_seq,
    c.to_seq,
    c.extra_seqs,
    c.model,
    c.prompt_version,
    c.run_id,
    c.content
FROM memory.consolidations c
JOIN memory.scopes s ON s.agent_key = c.agent_key AND s.scope_id = c.scope_id
JOIN memory.agents a ON a.agent_key = c.agent_key
LEFT JOIN memory.consolidations b ON b.agent_key = c.agent_key AND b.scope_id = c.scope_id AND b.version = c.base
LEFT JOIN memory.runs r ON r.agent_key = c.agent_key AND r.run_id = c.run_id;
COMMENT ON VIEW memory.v_scope_timeline IS 'One row per version of a scope''s consolidated text, with what it absorbed and cost.';
