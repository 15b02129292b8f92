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
COMMENT ON VIEW memory.v_scope_timeline IS 'One row per version of a scope''s consolidated text, with what it absorbed and which run and model wrote it.';
COMMENT ON COLUMN memory.v_scope_timeline.agent_id IS 'The host''s id for the agent.';
COMMENT ON COLUMN memory.v_scope_timeline.scope_id IS 'The scope''s number: the API''s s12 is 12 here.';
COMMENT ON COLUMN memory.v_scope_timeline.scope_kind IS 'individual (one user), group, collective (all users), conversation, entity, agent or guideline.';
COMMENT ON COLUMN memory.v_scope_timeline.owner_id IS 'The host''s id for the user, group, conversation or entity that owns the scope; null: a collective, agent or guideline scope.';
COMMENT ON COLUMN memory.v_scope_timeline.scope_name IS 'Name of the scope, if it is an additional one; null: the owner''s main scope.';
COMMENT ON COLUMN memory.v_scope_timeline.version IS 'Version of the scope''s text: 1, 2, 3 …; never used twice. With scope_id the key of the view.';
COMMENT ON COLUMN memory.v_scope_timeline.base IS 'The version that it was rewritten from; 0: none.';
COMMENT ON COLUMN memory.v_scope_timeline.live IS 'False: undone, or replaced after a forgetting.';
COMMENT ON COLUMN memory.v_scope_timeline.is_head IS 'True: it is the scope''s current text.';
COMMENT ON COLUMN memory.v_scope_timeline.reason IS 'Why it was written: threshold (enough was pending), asked, undo, forget, retract (corrected or made private), quarantine, merge or import.';
COMMENT ON COLUMN memory.v_scope_timeline.created_at IS 'When it was written.';
COMMENT ON COLUMN memory.v_scope_timeline.words IS 'Length of the text, in words.';
COMMENT ON COLUMN memory.v_scope_timeline.words_before IS 'Length of the base version, in words; 0: there is none.';
COMMENT ON COLUMN memory.v_scope_timeline.absorbed IS 'Number of observations that its run absorbed; null: no model wrote it.';
COMMENT ON COLUMN memory.v_scope_timeline.from_seq IS 'It covers the scope''s observations after this number …';
COMMENT ON COLUMN memory.v_scope_timeline.to_seq IS '… up to and including this one.';
COMMENT ON COLUMN memory.v_scope_timeline.extra_seqs IS 'Earlier observations that it absorbed as well, by their numbers.';
COMMENT ON COLUMN memory.v_scope_timeline.model IS 'The model that wrote it; null: none.';
COMMENT ON COLUMN memory.v_scope_timeline.prompt_version IS 'Version of the prompt; null: no model wrote it.';
COMMENT ON COLUMN memory.v_scope_timeline.run_id IS 'The run that made it; null: none.';
COMMENT ON COLUMN memory.v_scope_timeline.content IS 'The text.';
