-- memory.sweep_tiers(agent, after, most, changes, rules, at, dry): the sweep that makes cold what is old and worth little, and hot what is
-- worth much again.
--
-- memory.tiers_due(agents, scopes, seqs, rules, at): those of these observations that have another tier by their value at that
-- time. One row each, with both tiers, in the order in which they are given (`place`). `rules`: demote, promote (thresholds), days (age) and protected (categories). Its age
-- counts from when it was stored, or said again.
CREATE OR REPLACE FUNCTION memory.tiers_due(
    p_agents bigint[], p_scopes bigint[], p_seqs integer[], p_rules jsonb, p_at timestamptz
)
RETURNS TABLE (place bigint, agent_key bigint, scope_id bigint, seq integer, was text, becomes text)
LANGUAGE sql STABLE AS $$
    SELECT d.*
    FROM (
        SELECT k.place, k.agent_key, k.scope_id, k.seq, x.was, n.tier AS becomes
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
        CROSS JOIN LATERAL (  -- computed once
            SELECT l.value
            FROM memory.lifecycle(
                o.confidence, o.importance, u.uses, u.last_used_at, coalesce(t.said_again_at, o.observed_at), o.created_at,
                u.feedback, t.verification, o.category, t.status, p_at
            ) l
            OFFSET 0
        ) l
        CROSS JOIN LATERAL (SELECT CASE WHEN o.cold THEN 'cold' ELSE 'hot' END AS was) x
        CROSS JOIN LATERAL (
            SELECT memory.next_tier(
                x.was, l.value, extract(epoch FROM p_at - greatest(o.created_at, t.said_again_at))::float8 / 86400,
                coalesce(t.policy = 'protected', false) OR coalesce(p_rules -> 'protected' ? o.category, false),
                (p_rules ->> 'demote')::float8, (p_rules ->> 'promote')::float8, (p_rules ->> 'days')::float8
            ) AS tier
            OFFSET 0
        ) n
        WHERE memory.is_found(t.status) AND n.tier <> x.was
        ORDER BY k.place  -- as they come, so that a limit ends it
        OFFSET 0  -- only of these is asked whether they are held
    ) d
    WHERE NOT memory.is_kept_as_it_is(d.agent_key, d.scope_id, d.seq)
$$;

COMMENT ON FUNCTION memory.tiers_due IS 'The observations whose tier is another by now; one row each.';

-- As memory.sweep_stages, but that it looks at what is archived as well: searches find it.
CREATE OR REPLACE FUNCTION memory.sweep_tiers(
    p_agent text, p_after bigint[], p_most integer, p_changes integer, p_rules jsonb, p_at timestamptz, p_dry boolean,
    OUT last bigint[], OUT changed integer, OUT examples jsonb
)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_memoize = off SET enable_sort = off AS $$
DECLARE
    v_agents bigint[]; v_scopes bigint[]; v_seqs integer[]; v_was text[]; v_becomes text[];
BEGIN
    SELECT array_agg(n.agent_key), array_agg(n.scope_id), array_agg(n.seq) INTO v_agents, v_scopes, v_seqs
    FROM memory.next_found(p_agent, p_after, p_most) n;
    IF cardinality(v_seqs) = p_most THEN  -- there may be more
        last := ARRAY[v_agents[p_most], v_scopes[p_most], v_seqs[p_most]];
    END IF;
    SELECT array_agg(d.agent_key), array_agg(d.scope_id), array_agg(d.seq), array_agg(d.was), array_agg(d.becomes)
    INTO v_agents, v_scopes, v_seqs, v_was, v_becomes
    FROM (
        SELECT d.* FROM memory.tiers_due(v_agents, v_scopes, v_seqs, p_rules, p_at) d ORDER BY d.place LIMIT p_changes
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
    UPDATE memory.observations o SET cold = d.becomes = 'cold'
    FROM memory.tiers_due(v_agents, v_scopes, v_seqs, p_rules, p_at) d
    WHERE o.agent_key = d.agent_key AND o.scope_id = d.scope_id AND o.seq = d.seq;
    GET DIAGNOSTICS changed = ROW_COUNT;
END
$$;

COMMENT ON FUNCTION memory.sweep_tiers IS 'Moves the next observations to the tier that they are worth; one row says how many.';
