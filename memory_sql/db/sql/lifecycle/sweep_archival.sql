-- memory.sweep_archival(agent, after, most, changes, rules, threshold, at, dry): the sweep that archives what is old, unimportant and
-- unused.
--
-- memory.archival_due(agents, scopes, seqs, rules, at): those of these observations that are to be archived. One row each, in the
-- order in which they are given (`place`). `rules`: days, importance, uses (bounds) and protected (categories). Each condition has to
-- hold; where the importance isn't known it doesn't. Buffers have a length of their own, and what has a day ends with it. What has
-- superseded another stays: that one would stand again.
CREATE OR REPLACE FUNCTION memory.archival_due(
    p_agents bigint[], p_scopes bigint[], p_seqs integer[], p_rules jsonb, p_at timestamptz
)
RETURNS TABLE (place bigint, agent_key bigint, scope_id bigint, seq integer)
LANGUAGE sql STABLE AS $$
    SELECT d.*
    FROM (
        SELECT k.place, k.agent_key, k.scope_id, k.seq
        FROM unnest(p_agents, p_scopes, p_seqs) WITH ORDINALITY k(agent_key, scope_id, seq, place)
        CROSS JOIN LATERAL (  -- by its key, whatever the planner thinks of how many there are
            SELECT o.* FROM memory.observations o
            WHERE o.agent_key = k.agent_key AND o.scope_id = k.scope_id AND o.seq = k.seq LIMIT 1
        ) o
        LEFT JOIN LATERAL (
            SELECT t.* FROM memory.observation_states t
            WHERE t.agent_key = k.agent_key AND t.scope_id = k.scope_id AND t.seq = k.seq LIMIT 1
        ) t ON true
        CROSS JOIN LATERAL memory.lived(k.agent_key, k.scope_id, k.seq, p_at) u
        WHERE memory.in_use(t.status) AND o.lane = 'absorb'
          AND greatest(o.created_at, t.said_again_at) <= p_at - make_interval(days => (p_rules ->> 'days')::integer)
          AND o.importance < (p_rules ->> 'importance')::float8
          AND u.uses <= (p_rules ->> 'uses')::bigint
          AND o.category IS DISTINCT FROM 'correction'
          AND NOT coalesce(p_rules -> 'protected' ? o.category, false)
          AND t.policy IS DISTINCT FROM 'protected'
          AND (o.until IS NULL OR t.resolved_at IS NOT NULL)
          AND NOT EXISTS (
              SELECT FROM memory.observation_states b
              WHERE b.agent_key = k.agent_key AND b.scope_id = k.scope_id AND b.superseded_by = k.seq
          )
        ORDER BY k.place  -- as they come, so that a limit ends it
        OFFSET 0  -- only of these is asked whether they are held
    ) d
    WHERE NOT memory.is_kept_as_it_is(d.agent_key, d.scope_id, d.seq)
$$;

COMMENT ON FUNCTION memory.archival_due IS 'The observations that are to be archived; one row each.';

-- As memory.sweep_stages. What is archived has an event that says so, and starts with a new stage should it ever be active again.
CREATE OR REPLACE FUNCTION memory.sweep_archival(
    p_agent text, p_after bigint[], p_most integer, p_changes integer, p_rules jsonb, p_threshold integer, p_at timestamptz,
    p_dry boolean, OUT last bigint[], OUT changed integer, OUT examples jsonb
)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_memoize = off SET enable_sort = off AS $$
DECLARE
    v_agents bigint[]; v_scopes bigint[]; v_seqs integer[];
BEGIN
    SELECT array_agg(n.agent_key), array_agg(n.scope_id), array_agg(n.seq) INTO v_agents, v_scopes, v_seqs
    FROM memory.next_in_use(p_agent, p_after, p_most) n;
    IF cardinality(v_seqs) = p_most THEN  -- there may be more
        last := ARRAY[v_agents[p_most], v_scopes[p_most], v_seqs[p_most]];
    END IF;
    SELECT array_agg(d.agent_key), array_agg(d.scope_id), array_agg(d.seq) INTO v_agents, v_scopes, v_seqs
    FROM (
        SELECT d.* FROM memory.archival_due(v_agents, v_scopes, v_seqs, p_rules, p_at) d ORDER BY d.place LIMIT p_changes
    ) d;
    changed := coalesce(cardinality(v_seqs), 0);
    IF changed = p_changes THEN
        last := ARRAY[v_agents[changed], v_scopes[changed], v_seqs[changed]];
    END IF;
    IF p_dry THEN
        examples := memory.moved(
            v_agents, v_scopes, v_seqs, array_fill('active'::text, ARRAY[changed]), array_fill('archived'::text, ARRAY[changed])
        );
        RETURN;
    END IF;
    SELECT array_agg(k.agent_key), array_agg(k.scope_id), array_agg(k.seq) INTO v_agents, v_scopes, v_seqs
    FROM memory.lock_swept(v_agents, v_scopes, v_seqs) k;
    WITH due AS MATERIALIZED (
        SELECT * FROM memory.archival_due(v_agents, v_scopes, v_seqs, p_rules, p_at)
    ), stored AS (
        INSERT INTO memory.observation_states AS t (agent_key, scope_id, seq, status, status_at)
        SELECT d.agent_key, d.scope_id, d.seq, 'archived', p_at FROM due d
        ON CONFLICT ON CONSTRAINT observation_states_pkey DO UPDATE
        SET status = excluded.status, status_at = excluded.status_at, superseded_by = NULL, stage = excluded.stage
    ), told AS (
        INSERT INTO memory.events (agent_key, kind, scope_id, seq, detail, created_at)
        SELECT d.agent_key, 'status', d.scope_id, d.seq, '{"from": "active", "to": "archived", "why": "age"}', p_at
        FROM due d
        ORDER BY d.agent_key, d.scope_id, d.seq
    )
    SELECT count(*), array_agg(d.agent_key), array_agg(d.scope_id) INTO changed, v_agents, v_scopes FROM due d;
    PERFORM memory.refresh_due(k.agent_key, array_agg(DISTINCT k.scope_id), p_threshold, p_at)
    FROM unnest(v_agents, v_scopes) k(agent_key, scope_id)
    GROUP BY k.agent_key;
END
$$;

COMMENT ON FUNCTION memory.sweep_archival IS 'Archives what is old, unimportant and unused among the next observations; one row says how many.';
