CREATE OR REPLACE FUNCTION memory.known_at(p_agent text, p_user text, p_conversation text, p_as_of timestamptz)
RETURNS TABLE (agent_key bigint, scope_id bigint, seq integer, status text, pending boolean, said_again_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT o.agent_key, o.scope_id, o.seq, then_.status,
           o.lane = 'absorb' AND memory.in_use(then_.status) AND NOT EXISTS (
               SELECT FROM memory.consolidations c
               WHERE c.agent_key = o.agent_key AND c.scope_id = o.scope_id
                 AND c.created_at <= p_as_of AND (c.live_until IS NULL OR c.live_until > p_as_of)
                 AND (
                     o.seq = ANY (c.extra_seqs)
                     OR o.seq > c.from_seq AND o.seq <= c.to_seq
                        AND NOT (c.live AND coalesce(t.repend, false))
                        AND NOT EXISTS (
                            SELECT FROM memory.consolidations later
                            WHERE later.agent_key = c.agent_key AND later.scope_id = c.scope_id
                              AND later.version > c.version AND o.seq = ANY (later.extra_seqs)
                        )
                 )
           ),
           CASE WHEN o.said_again_at IS NOT NULL THEN (
               SELECT max(e.said_at)
               FROM memory.evidence e
               WHERE e.agent_key = o.agent_key AND e.scope_id = o.scope_id AND e.seq = o.seq AND e.withdrawn_by IS NULL
                 AND e.created_at <= p_as_of AND e.said_at > o.observed_at
           ) END
    FROM memory.visible_scopes(p_agent, p_user, p_conversation, p_as_of) v
    CROSS JOIN LATERAL (  -- of each scope by itself, whatever the planner thinks of how many there are
        SELECT o.* FROM memory.observations o WHERE (o.agent_key, o.scope_id) = (v.agent_key, v.scope_id) AND o.created_at <= p_as_of OFFSET 0
    ) o
    LEFT JOIN memory.observation_states t ON t.agent_key = o.agent_key AND t.scope_id = o.scope_id AND t.seq = o.seq
    CROSS JOIN LATERAL (  -- the events of each by its key, not along the time
        SELECT coalesce(
            (array_agg(e.detail ->> 'to' ORDER BY e.created_at DESC, e.event_id DESC) FILTER (WHERE e.created_at <= p_as_of))[1],
            (array_agg(e.detail ->> 'from' ORDER BY e.created_at, e.event_id) FILTER (WHERE e.created_at > p_as_of))[1],
            CASE WHEN t.status_at <= p_as_of THEN t.status END,
            'active'
        ) AS status
        FROM memory.events e
        WHERE e.agent_key = o.agent_key AND e.scope_id = o.scope_id AND e.seq = o.seq AND e.kind = 'status'
    ) then_
    WHERE t.status IS DISTINCT FROM 'withdrawn';
END
$$;
REVOKE EXECUTE ON FUNCTION memory.known_at(text, text, text, timestamptz) FROM PUBLIC;
COMMENT ON FUNCTION memory.known_at(text, text, text, timestamptz) IS
    'What was known at a moment, of what a user of an agent may see; one row per observation.';
