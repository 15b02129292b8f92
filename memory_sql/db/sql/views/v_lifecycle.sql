-- memory.v_lifecycle: how alive each observation is now, with what that comes from. One row per observation that is active or
-- archived. Scores are computed when they are asked for (memory.lifecycle); stored are only the stage and the
-- tier, by the sweeps of maintenance where `lifecycle` and `tiering` are on.
CREATE OR REPLACE VIEW memory.v_lifecycle WITH (security_invoker = true) AS
SELECT
    a.agent_id,
    'o' || o.scope_id::text || '-' || o.seq::text AS observation_id,
    o.scope_id,
    o.seq,
    s.kind AS scope_kind,
    nullif(substr(s.owner, 3), '') AS owner_id,
    nullif(s.name, '') AS scope_name,
    o.category,
    o.confidence,
    o.importance,
    u.uses,
    u.last_used_at,
    coalesce(t.said_again_at, o.observed_at) AS said_at,
    o.created_at,
    u.feedback,
    coalesce(t.verification, 'unverified') AS verification,
    coalesce(t.policy, 'durable') AS policy,
    o.standing AS status,
    CASE WHEN o.standing = 'archived' THEN 'archived' ELSE coalesce(t.stage, 'candidate') END AS stage,
    CASE WHEN o.cold THEN 'cold' ELSE 'hot' END AS tier,
    round(l.heat::numeric, 4)::double precision AS heat,
    round(l.decay::numeric, 4)::double precision AS decay,
    round(l.value::numeric, 4)::double precision AS value
FROM memory.observations o
JOIN memory.scopes s ON s.agent_key = o.agent_key AND s.scope_id = o.scope_id
JOIN memory.agents a ON a.agent_key = o.agent_key
LEFT JOIN memory.observation_states t ON t.agent_key = o.agent_key AND t.scope_id = o.scope_id AND t.seq = o.seq
CROSS JOIN LATERAL memory.lived(o.agent_key, o.scope_id, o.seq, now()) u
CROSS JOIN LATERAL memory.lifecycle(
    o.confidence, o.importance, u.uses, u.last_used_at, coalesce(t.said_again_at, o.observed_at), o.created_at, u.feedback,
    t.verification, o.category, o.standing, now()
) l
WHERE o.standing IN ('active', 'archived');

COMMENT ON VIEW memory.v_lifecycle IS 'One row per active or archived observation: its stage, its scores now, and what they come from.';

COMMENT ON COLUMN memory.v_lifecycle.agent_id IS 'The host''s id for the agent.';
COMMENT ON COLUMN memory.v_lifecycle.observation_id IS 'o12-3: scope_id and seq, as in the API and the context. Key of the view.';
COMMENT ON COLUMN memory.v_lifecycle.scope_id IS 'The scope''s number: the API''s s12 is 12 here.';
COMMENT ON COLUMN memory.v_lifecycle.seq IS 'Number within the scope.';
COMMENT ON COLUMN memory.v_lifecycle.scope_kind IS 'individual (one user), group, collective (all users), conversation, entity, agent or guideline.';
COMMENT ON COLUMN memory.v_lifecycle.owner_id IS 'The host''s id for the user, group, conversation or entity that owns the scope; null: a collective, agent or guideline scope.';
COMMENT ON COLUMN memory.v_lifecycle.scope_name IS 'Name of the scope, if it is an additional one; null: the owner''s main scope.';
COMMENT ON COLUMN memory.v_lifecycle.category IS 'fact, preference, decision …; null: not classified.';
COMMENT ON COLUMN memory.v_lifecycle.confidence IS 'How certain it is, from 0 to 1; null: not known, which counts as 0.5.';
COMMENT ON COLUMN memory.v_lifecycle.importance IS 'How important it is, from 0 to 1; null: not known, which counts as 0.5.';
COMMENT ON COLUMN memory.v_lifecycle.uses IS 'How often a search found it and the result showed it, in the last 90 days (count_days).';
COMMENT ON COLUMN memory.v_lifecycle.last_used_at IS 'The beginning (UTC) of the last day on which that happened; null: never.';
COMMENT ON COLUMN memory.v_lifecycle.said_at IS 'When it was last said.';
COMMENT ON COLUMN memory.v_lifecycle.created_at IS 'When it was stored.';
COMMENT ON COLUMN memory.v_lifecycle.feedback IS 'What was said of its use, from -1 to 1, on average; null: nothing.';
COMMENT ON COLUMN memory.v_lifecycle.verification IS 'unverified, confirmed or disputed, as stated by a person or the host.';
COMMENT ON COLUMN memory.v_lifecycle.policy IS 'ephemeral, durable or protected (no rule archives or expires it), as the host says.';
COMMENT ON COLUMN memory.v_lifecycle.status IS 'active or archived.';
COMMENT ON COLUMN memory.v_lifecycle.stage IS 'candidate, validated, active, stale or archived: for searches, as of the last sweep.';
COMMENT ON COLUMN memory.v_lifecycle.tier IS 'hot, or cold: searches rank it only if others don''t fill the result; as of the last sweep.';
COMMENT ON COLUMN memory.v_lifecycle.heat IS 'How much it is in use, from 0 to 1.';
COMMENT ON COLUMN memory.v_lifecycle.decay IS 'How far it has faded, from 0 to 1.';
COMMENT ON COLUMN memory.v_lifecycle.value IS 'What it is worth to keep it at hand, from 0 to 1.';
