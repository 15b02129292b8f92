-- memory.sweep_stages(agent, after, most, rules, at, dry): the sweep that stores the stages of observations.
--
-- memory.stages_due(agents, scopes, seqs, rules, at): those of these observations that have another stage by their scores at
-- that time. One row each, with both stages. `rules`: promote, stale, archive (thresholds) and protected (categories).
CREATE OR REPLACE FUNCTION memory.stages_due(
    p_agents bigint[], p_scopes bigint[], p_seqs integer[], p_rules jsonb, p_at timestamptz
)
RETURNS TABLE (agent_key bigint, scope_id bigint, seq integer, created_at timestamptz, was text, becomes text)
LANGUAGE sql STABLE AS $$
    SELECT d.*
    FROM (
        SELECT k.agent_key, k.scope_id, k.seq, o.created_at, coalesce(t.stage, 'candidate') AS was, n.stage AS becomes
        FROM unnest(p_agents, p_scopes, p_seqs) k(agent_key, scope_id, seq)
        CROSS JOIN LATERAL (  -- here and below: by its key, whatever the planner thinks of how many there are
            SELECT o.* FROM memory.observations o
            WHERE o.agent_key = k.agent_key AND o.scope_id = k.scope_id AND o.seq = k.seq LIMIT 1
        ) o
        LEFT JOIN LATERAL (
            SELECT t.* FROM memory.observation_states t
            WHERE t.agent_key = k.agent_key AND t.scope_id = k.scope_id AND t.seq = k.seq LIMIT 1
        ) t ON true
        CROSS JOIN LATERAL memory.lived(k.agent_key, k.scope_id, k.seq, p_at) u
        CROSS JOIN LATERAL memory.lifecycle(
            o.confidence, o.importance, u.uses, u.last_used_at, coalesce(t.said_again_at, o.observed_at), o.created_at, u.feedback,
            t.verification, o.category, t.status, p_at
        ) l
        CROSS JOIN LATERAL (
            SELECT memory.next_stage(
                coalesce(t.stage, 'candidate'), l.heat, l.decay, t.verification, o.category, coalesce(t.policy, 'durable'),
                (p_rules ->> 'promote')::float8, (p_rules ->> 'stale')::float8, (p_rules ->> 'archive')::float8,
                ARRAY(SELECT jsonb_array_elements_text(p_rules -> 'protected'))
            ) AS stage
            OFFSET 0
        ) n
        WHERE memory.in_use(t.status) AND n.stage <> coalesce(t.stage, 'candidate')
        OFFSET 0  -- only of these is asked whether they are held
    ) d
    WHERE NOT memory.is_kept_as_it_is(d.agent_key, d.scope_id, d.seq)
$$;

COMMENT ON FUNCTION memory.stages_due IS 'The observations whose stage is another by now; one row each.';

-- It looks at the next active observations, at most `most`, after the last one of the batch before, and stores the stages that
-- have changed; with p_dry none. One row: how many it looked at, the last of them, how many changed, and the first 20 of
-- these as JSON. Each transaction is whole, so it may stop after any; what is locked elsewhere waits for the next sweep.
CREATE OR REPLACE FUNCTION memory.sweep_stages(
    p_agent text, p_after bigint[], p_most integer, p_rules jsonb, p_at timestamptz, p_dry boolean,
    OUT looked integer, OUT last bigint[], OUT changed integer, OUT examples jsonb
)
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_custom_plan AS $$  -- states may have become many since
DECLARE
    v_agents bigint[]; v_scopes bigint[]; v_seqs integer[];
BEGIN
    SELECT array_agg(n.agent_key), array_agg(n.scope_id), array_agg(n.seq) INTO v_agents, v_scopes, v_seqs
    FROM memory.next_in_use(p_agent, p_after, p_most) n;
    looked := coalesce(cardinality(v_seqs), 0);
    last := CASE WHEN looked > 0 THEN ARRAY[v_agents[looked], v_scopes[looked], v_seqs[looked]] END;
    IF NOT p_dry THEN
        SELECT array_agg(k.agent_key), array_agg(k.scope_id), array_agg(k.seq) INTO v_agents, v_scopes, v_seqs
        FROM (
            SELECT array_agg(d.agent_key) AS agents, array_agg(d.scope_id) AS scopes, array_agg(d.seq) AS seqs
            FROM memory.stages_due(v_agents, v_scopes, v_seqs, p_rules, p_at) d
        ) d
        CROSS JOIN LATERAL memory.lock_swept(d.agents, d.scopes, d.seqs) k;
    END IF;
    WITH due AS MATERIALIZED (
        SELECT * FROM memory.stages_due(v_agents, v_scopes, v_seqs, p_rules, p_at)
    ), stored AS (
        INSERT INTO memory.observation_states AS t (agent_key, scope_id, seq, status_at, stage)
        SELECT d.agent_key, d.scope_id, d.seq, d.created_at, d.becomes FROM due d WHERE NOT p_dry
        ON CONFLICT ON CONSTRAINT observation_states_pkey DO UPDATE SET stage = excluded.stage
    )
    SELECT count(*), coalesce(jsonb_agg(jsonb_build_object(
        'agent_id', a.agent_id, 'scope_id', d.scope_id, 'seq', d.seq, 'was', d.was, 'becomes', d.becomes
    ) ORDER BY d.n) FILTER (WHERE d.n <= 20), '[]')
    INTO changed, examples
    FROM (SELECT d.*, row_number() OVER (ORDER BY d.agent_key, d.scope_id, d.seq) AS n FROM due d) d
    JOIN memory.agents a ON a.agent_key = d.agent_key;
END
$$;

COMMENT ON FUNCTION memory.sweep_stages IS 'Stores the stages of the next observations that have changed; one row says how many.';
