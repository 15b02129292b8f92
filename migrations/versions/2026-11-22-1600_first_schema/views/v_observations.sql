CREATE OR REPLACE VIEW memory.v_observations WITH (security_invoker = true) AS
SELECT
    a.agent_id,
    'o' || o.scope_id::text || '-' || o.seq::text AS observation_id,
    o.scope_id,
    o.seq,
    s.kind AS scope_kind,
    nullif(substr(s.owner, 3), '') AS owner_id,
    nullif(s.name, '') AS scope_name,
    s.is_active AS scope_is_active,
    o.content,
    o.observed_at,
    o.said_again_at,
    o.created_at,
    o.source_kind,
    o.conversation_id,
    o.speaker,
    o.message_ids,
    o.related_users,
    o.subjects,
    o.run_id,
    'o' || o.scope_id::text || '-' || o.part_of::text AS part_of,
    o.legacy_ref,
    o.lane,
    o.category,
    o.kind,
    o.categories,
    o.fact_key,
    o.dates,
    o.confidence,
    o.importance,
    o.classified_by,
    o.until,
    o.sensitivity,
    o.no_propagate,
    o.confidential,
    o.tags,
    o.metadata,
    coalesce(t.status, 'active') AS status,
    coalesce(t.status_at, o.created_at) AS status_at,
    CASE WHEN t.status = 'superseded' THEN 'o' || o.scope_id::text || '-' || t.superseded_by::text END AS superseded_by,
    coalesce(t.follows, false) AS follows,
    coalesce(t.verification, 'unverified') AS verification,
    t.resolved,
    t.resolved_at,
    t.expires_at,
    coalesce(t.policy, 'durable') AS policy,
    o.lane = 'absorb' AND memory.in_use(t.status)
        AND (o.seq > s.done_seq OR coalesce(t.repend, false)) AS pending,
    v.version AS absorbed_by,
    v.created_at AS absorbed_at
FROM memory.observations o
JOIN memory.scopes s ON s.agent_key = o.agent_key AND s.scope_id = o.scope_id
JOIN memory.agents a ON a.agent_key = o.agent_key
LEFT JOIN memory.observation_states t ON t.agent_key = o.agent_key AND t.scope_id = o.scope_id AND t.seq = o.seq
LEFT JOIN LATERAL (
    SELECT c.version, c.created_at
    FROM memory.consolidations c
    WHERE c.agent_key = o.agent_key AND c.scope_id = o.scope_id AND c.live AND o.lane = 'absorb'
      AND (
          o.seq = ANY (c.extra_seqs)
          OR (o.seq > c.from_seq AND o.seq <= c.to_seq AND NOT coalesce(t.repend, false))
      )
    ORDER BY o.seq = ANY (c.extra_seqs) DESC
    LIMIT 1
) v ON true
WHERE t.withdrawn_by IS NULL;
COMMENT ON VIEW memory.v_observations IS 'One row per observation, with its scope, its state and the version that absorbed it.';
COMMENT ON COLUMN memory.v_observations.agent_id IS 'The host''s id for the agent.';
COMMENT ON COLUMN memory.v_observations.observation_id IS 'o12-3: scope_id and seq, as in the API and the context; local to this database. Key of the view.';
COMMENT ON COLUMN memory.v_observations.scope_id IS 'The scope''s number: the API''s s12 is 12 here.';
COMMENT ON COLUMN memory.v_observations.seq IS 'Number within the scope: 1, 2, 3 … in the order of storing; with scope_id a key of the view.';
COMMENT ON COLUMN memory.v_observations.scope_kind IS 'individual (one user), group, collective (all users), conversation, entity, agent or guideline.';
COMMENT ON COLUMN memory.v_observations.owner_id IS 'The host''s id for the user, group, conversation or entity that owns the scope; null: a collective, agent or guideline scope.';
COMMENT ON COLUMN memory.v_observations.scope_name IS 'Name of the scope, if it is an additional one; null: the owner''s main scope.';
COMMENT ON COLUMN memory.v_observations.scope_is_active IS 'False: the agent no longer reads or writes the scope.';
COMMENT ON COLUMN memory.v_observations.content IS 'What is remembered, in words. It never changes.';
COMMENT ON COLUMN memory.v_observations.observed_at IS 'When it was said.';
COMMENT ON COLUMN memory.v_observations.said_again_at IS 'When it was said again last; null: observed_at is the last time.';
COMMENT ON COLUMN memory.v_observations.created_at IS 'When it was stored.';
COMMENT ON COLUMN memory.v_observations.source_kind IS 'formation (from a conversation), observe (stated by the host), propagation (from narrower scopes) or import.';
COMMENT ON COLUMN memory.v_observations.conversation_id IS 'The host''s id for the conversation that it comes from; null: none, or several.';
COMMENT ON COLUMN memory.v_observations.speaker IS 'Who said it, by name; null: not known, or forgotten.';
COMMENT ON COLUMN memory.v_observations.message_ids IS 'The host''s ids for the messages that it was made from; what confirmed it later is in memory.evidence.';
COMMENT ON COLUMN memory.v_observations.related_users IS 'The host''s ids for the users who said it.';
COMMENT ON COLUMN memory.v_observations.subjects IS 'The host''s ids for the users whom it is about, as far as extraction recorded them.';
COMMENT ON COLUMN memory.v_observations.run_id IS 'The run that made it, or what it is a part of; null: none.';
COMMENT ON COLUMN memory.v_observations.part_of IS 'observation_id of the one of which this is what still held when that was overtaken; null: none.';
COMMENT ON COLUMN memory.v_observations.legacy_ref IS 'The document of another store that it was imported from, as collection:id; null: it wasn''t imported.';
COMMENT ON COLUMN memory.v_observations.lane IS 'absorb: it goes into the scope''s text; buffer: only the newest are kept, and they never go into the text.';
COMMENT ON COLUMN memory.v_observations.category IS 'fact, preference, decision …, as extraction or the host classified it; null: not classified.';
COMMENT ON COLUMN memory.v_observations.kind IS 'episode, note, fact or procedure, for the digest''s budgets; null: not classified.';
COMMENT ON COLUMN memory.v_observations.categories IS 'Kinds of personal data in it: contact, credential, financial …; empty: none; null: never classified.';
COMMENT ON COLUMN memory.v_observations.fact_key IS 'The host''s name for the fact that it states; a newer observation with the same name supersedes it. Null: none.';
COMMENT ON COLUMN memory.v_observations.dates IS 'The calendar days that its text mentions, as ranges that exclude their end (dates @> ''2026-04-20''::date); null: none.';
COMMENT ON COLUMN memory.v_observations.confidence IS 'How certain it is, from 0 to 1: .95 said, .8 implied, .5 guessed, or what the host gave, the surest where it was said again; null: not known.';
COMMENT ON COLUMN memory.v_observations.importance IS 'How important it is, from 0 to 1, by the rules or as the host gave it: from .9 critical, .7 high, .4 normal, .2 low; null: not known.';
COMMENT ON COLUMN memory.v_observations.classified_by IS 'Version of the rules that gave kind and importance; 0: they are about to; null: one of these is the host''s, or neither is known.';
COMMENT ON COLUMN memory.v_observations.until IS 'The day on which what it says is over; null: not known, or never.';
COMMENT ON COLUMN memory.v_observations.sensitivity IS 'public, private or sensitive.';
COMMENT ON COLUMN memory.v_observations.no_propagate IS 'True: it never leaves its scope.';
COMMENT ON COLUMN memory.v_observations.confidential IS 'True: it was said in confidence; it never leaves its scope.';
COMMENT ON COLUMN memory.v_observations.tags IS 'The host''s tags.';
COMMENT ON COLUMN memory.v_observations.metadata IS 'The host''s own data about it.';
COMMENT ON COLUMN memory.v_observations.status IS 'active, superseded, archived, quarantined, given_up or evicted.';
COMMENT ON COLUMN memory.v_observations.status_at IS 'Since when it has that status.';
COMMENT ON COLUMN memory.v_observations.superseded_by IS 'observation_id of the observation in the same scope that superseded it; null: none, or that one was forgotten.';
COMMENT ON COLUMN memory.v_observations.follows IS 'True: it isn''t active because its sources aren''t; it becomes active again with them.';
COMMENT ON COLUMN memory.v_observations.verification IS 'unverified, confirmed or disputed, as stated by a person or the host.';
COMMENT ON COLUMN memory.v_observations.resolved IS 'fulfilled or expired: how what it planned ended; null: it isn''t over.';
COMMENT ON COLUMN memory.v_observations.resolved_at IS 'Since when it is resolved, or, if resolved is null, when that was taken back; null: neither.';
COMMENT ON COLUMN memory.v_observations.expires_at IS 'When it is evicted if it is still in use, or was; null: the settings say when, if ever.';
COMMENT ON COLUMN memory.v_observations.policy IS 'ephemeral, durable or protected: no sweep takes it out of use.';
COMMENT ON COLUMN memory.v_observations.pending IS 'True: it waits for the scope''s next consolidation.';
COMMENT ON COLUMN memory.v_observations.absorbed_by IS 'The live version of the scope''s text that absorbed it; null: none (it is pending, or was set aside before it was read).';
COMMENT ON COLUMN memory.v_observations.absorbed_at IS 'When that version was written; null: none absorbed it.';
