-- memory.pending_observations(agent_key, scope_id, done_seq, most): the active observations that no live version has
-- absorbed. One row per observation. Three arms, so that each is a range of an index: what came after the watermark, and what
-- was passed over by it; and, of the former, what was said again. At least the newest `most` of them, at most three times as many: each
-- arm is read no further; null: all. `observed_at` is when it was said last.
-- The columns are named, not the table's row: what depends on them doesn't depend on its other columns.
CREATE OR REPLACE FUNCTION memory.pending_observations(
    p_agent bigint, p_scope bigint, p_done integer, p_most bigint DEFAULT NULL
)
RETURNS TABLE (seq integer, content text, observed_at timestamptz, created_at timestamptz, said_again_at timestamptz)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    (SELECT o.seq, o.content, o.observed_at, o.created_at, o.said_again_at
    FROM memory.observations o
    WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.seq > p_done AND o.lane = 'absorb'
      AND o.standing = 'active' AND o.said_again_at IS NULL
    ORDER BY o.seq DESC LIMIT p_most)
    UNION ALL
    (SELECT o.seq, o.content, o.said_again_at, o.created_at, o.said_again_at
    FROM memory.observations o
    WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.seq > p_done AND o.lane = 'absorb'
      AND o.standing = 'active' AND o.said_again_at IS NOT NULL
    ORDER BY o.said_again_at DESC, o.seq DESC LIMIT p_most)
    UNION ALL
    (SELECT o.seq, o.content, coalesce(o.said_again_at, o.observed_at), o.created_at, o.said_again_at
    FROM memory.observation_states t
    JOIN memory.observations o ON o.agent_key = t.agent_key AND o.scope_id = t.scope_id AND o.seq = t.seq
    WHERE t.agent_key = p_agent AND t.scope_id = p_scope AND t.seq <= p_done AND t.repend AND memory.in_use(t.status)
      AND o.lane = 'absorb'
    ORDER BY o.seq DESC LIMIT p_most)
$$;

COMMENT ON FUNCTION memory.pending_observations IS
    'The observations of a scope that wait for its next consolidation; one row per observation.';

-- memory.pending_since(agent_key, scope_id, done_seq): when these were stored. One row per observation. Without their text, which
-- readers of the backlog may not be allowed to see.
CREATE OR REPLACE FUNCTION memory.pending_since(p_agent bigint, p_scope bigint, p_done integer)
RETURNS TABLE (created_at timestamptz)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT o.created_at
    FROM memory.observations o
    WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.seq > p_done AND o.lane = 'absorb'
      AND o.standing = 'active'
    UNION ALL
    SELECT o.created_at
    FROM memory.observation_states t
    JOIN memory.observations o ON o.agent_key = t.agent_key AND o.scope_id = t.scope_id AND o.seq = t.seq
    WHERE t.agent_key = p_agent AND t.scope_id = p_scope AND t.seq <= p_done AND t.repend
      AND memory.in_use(t.status) AND o.lane = 'absorb'
$$;

COMMENT ON FUNCTION memory.pending_since IS 'When the pending observations of a scope were stored; one row per observation.';

-- memory.is_long(agent_key, scope_id, done_seq, characters): whether the pending observations of a scope have so many characters; null:
-- it has no such limit.
CREATE OR REPLACE FUNCTION memory.is_long(p_agent bigint, p_scope bigint, p_done integer, p_characters integer)
RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_characters IS NOT NULL THEN (
        SELECT coalesce(sum(length(p.content)), 0) >= p_characters FROM memory.pending_observations(p_agent, p_scope, p_done) p
    ) END
$$;

COMMENT ON FUNCTION memory.is_long IS 'Whether what waits in a scope is long enough for its next consolidation.';
