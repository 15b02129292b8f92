-- memory.v_observations: every observation with its scope and state. One row per observation.
-- absorbed_by: the live version of the scope's text that holds it; null while it is pending or set aside.
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
    o.created_at,
    o.source_kind,
    o.conversation_id,
    o.speaker,
    o.message_ids,
    o.related_users,
    o.subjects,
    o.run_id,
    o.lane,
    o.category,
    o.kind,
    o.confidence,
    o.importance,
    o.sensitivity,
    o.no_propagate,
    o.confidential,
    o.tags,
    o.metadata,
    coalesce(t.status, 'active') AS status,
    coalesce(t.status_at, o.created_at) AS status_at,
    coalesce(t.follows, false) AS follows,
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
) v ON true;

COMMENT ON VIEW memory.v_observations IS 'One row per observation, with its scope, its state and the version that absorbed it.';
