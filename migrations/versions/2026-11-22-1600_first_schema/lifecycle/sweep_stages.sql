CREATE OR REPLACE FUNCTION memory.stages_due(
    p_agents bigint[], p_scopes bigint[], p_seqs integer[], p_rules jsonb, p_at timestamptz
)
RETURNS TABLE (
    place bigint, agent_key bigint, scope_id bigint, seq integer, created_at timestamptz, was text, becomes text
)
LANGUAGE sql STABLE AS $$
    SELECT d.*
    FROM (
        SELECT k.place, k.agent_key, k.scope_id, k.seq, o.created_at, coalesce(t.stage, 'candidate') AS was, n.stage AS becomes
        FROM unnest(p_agents, p_scopes, p_seqs) WITH ORDINALITY k(agent_key, scope_id, seq, place)
        CROSS JOIN LATERAL (  -- here and below: by its key, whatever the planner thinks of how many there are
            SELECT o.* FROM memory.observations o
            WHERE o.agent_key = k.agent_key AND o.scope_id = k.scope_id AND o.seq = k.seq LIMIT 1
        ) o
        LEFT JOIN LATERAL (
            SELECT t.* FROM memory.observation_states t
            WHERE t.agent_key = k.agent_key AND t.scope_id = k.scope_id AND t.seq = k.seq LIMIT 1
        ) t ON true
        CROSS JOIN LATERAL memory.lived(k.agent_key, k.scope_id, k.seq, p_at) u
        CROSS JOIN LATERAL (  -- computed once, and then next_stage is no call of its own
            SELECT l.heat, l.decay
            FROM memory.lifecycle(
                o.confidence, o.importance, u.uses, u.last_used_at, coalesce(t.said_again_at, o.observed_at), o.created_at,
                u.feedback, t.verification, o.category, t.status, p_at
            ) l
            OFFSET 0
        ) l
        CROSS JOIN LATERAL (
            SELECT memory.next_stage(
                coalesce(t.stage, 'candidate'), l.heat, l.decay, t.verification, o.category, coalesce(t.policy, 'durable'),
                (p_rules ->> 'promote')::float8, (p_rules ->> 'stale')::float8, (p_rules ->> 'archive')::float8,
                ARRAY(SELECT jsonb_array_elements_text(p_rules -> 'protected'))
            ) AS stage
            OFFSET 0
        ) n
        WHERE memory.in_use(t.status) AND t.stage IS DISTINCT FROM 'archived' AND n.stage <> coalesce(t.stage, 'candidate')
        ORDER BY k.place  -- as they come, so that a limit ends it
        OFFSET 0  -- only of these is asked whether they are held
    ) d
    WHERE NOT memory.is_kept_as_it_is(d.agent_key, d.scope_id, d.seq)
$$;
COMMENT ON FUNCTION memory.stages_due IS 'The observations whose stage is another by now; one row each.';
CREATE OR REPLACE FUNCTION memory.sweep_stages(
    p_agent text, p_after bigint[], p_most integer, p_changes integer, p_rules jsonb, p_at timestamptz, p_dry boolean,
    OUT last bigint[], OUT changed integer, OUT examples jsonb
)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_memoize = off SET enable_sort = off AS $$
DECLARE
    v_agents bigint[]; v_scopes bigint[]; v_seqs integer[]; v_was text[]; v_becomes text[];
BEGIN
    SELECT array_agg(n.agent_key), array_agg(n.scope_id), array_agg(n.seq) INTO v_agents, v_scopes, v_seqs
    FROM memory.next_in_use(p_agent, p_after, p_most) n;
    IF cardinality(v_seqs) = p_most THEN  -- there may be more
        last := ARRAY[v_agents[p_most], v_scopes[p_most], v_seqs[p_most]];
    END IF;
    SELECT array_agg(d.agent_key), array_agg(d.scope_id), array_agg(d.seq), array_agg(d.was), array_agg(d.becomes)
    INTO v_agents, v_scopes, v_seqs, v_was, v_becomes
    FROM (
        SELECT d.* FROM memory.stages_due(v_agents, v_scopes, v_seqs, p_rules, p_at) d ORDER BY d.place LIMIT p_changes
    ) d;
    changed := coalesce(cardinality(v_seqs), 0);
    IF changed = p_changes THEN
        last := ARRAY[v_agents[changed], v_scopes[changed], v_seqs[changed]];
    END IF;
    IF p_dry THEN
        examples := memory.moved(v_agents, v_scopes, v_seqs, v_was, v_becomes);
        RETURN;
    END IF;
    SELECT array_agg(k.agent_key), array_agg(k.scope_id), array_agg(k.seq) INTO v_agents, v_scopes, v_seqs
    FROM memory.lock_swept(v_agents, v_scopes, v_seqs) k;
    INSERT INTO memory.observation_states AS t (agent_key, scope_id, seq, status_at, stage)
    SELECT d.agent_key, d.scope_id, d.seq, d.created_at, d.becomes
    FROM memory.stages_due(v_agents, v_scopes, v_seqs, p_rules, p_at) d
    ON CONFLICT ON CONSTRAINT observation_states_pkey DO UPDATE SET stage = excluded.stage;
    GET DIAGNOSTICS changed = ROW_COUNT;
END
$$;
COMMENT ON FUNCTION memory.sweep_stages IS 'Stores the stages of the next observations that have changed; one row says how many.';
