-- memory.expire(agent, after, most, changes, defaults, at): carries out what memory.expiring lists for this moment, in batches.
--
-- memory.next_that_may_expire(agent, after, most): the next observations after that key, at most so many, in the order of their
-- keys, that have something by which they may ever expire. One row each.
CREATE OR REPLACE FUNCTION memory.next_that_may_expire(p_agent text, p_after bigint[], p_most integer)
RETURNS TABLE (agent_key bigint, scope_id bigint, seq integer)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    v_agent bigint; v_after bigint[] := p_after;
BEGIN
    IF p_agent IS NOT NULL THEN
        SELECT a.agent_key INTO v_agent FROM memory.agents a WHERE a.agent_id = p_agent;
        IF v_agent IS NULL THEN
            RETURN;
        END IF;
        v_after := greatest(p_after, ARRAY[v_agent, 0, 0]);
    END IF;
    RETURN QUERY
    SELECT k.agent_key, k.scope_id, k.seq
    FROM (
        (SELECT o.agent_key, o.scope_id, o.seq
        FROM memory.observations o
        WHERE (o.agent_key, o.scope_id, o.seq) > (v_after[1], v_after[2], v_after[3])
          AND o.agent_key <= coalesce(v_agent, 9223372036854775807)
          AND o.standing = 'active' AND (o.confidence < 0.4 OR o.until IS NOT NULL)
        ORDER BY o.agent_key, o.scope_id, o.seq
        LIMIT p_most)
        UNION
        (SELECT t.agent_key, t.scope_id, t.seq
        FROM memory.observation_states t
        WHERE (t.agent_key, t.scope_id, t.seq) > (v_after[1], v_after[2], v_after[3])
          AND t.agent_key <= coalesce(v_agent, 9223372036854775807)
          AND (t.expires_at IS NOT NULL AND t.status = 'active' OR t.resolved IS NOT NULL AND t.status = 'archived')
        ORDER BY t.agent_key, t.scope_id, t.seq
        LIMIT p_most)
    ) k
    ORDER BY k.agent_key, k.scope_id, k.seq
    LIMIT p_most;
END
$$;

COMMENT ON FUNCTION memory.next_that_may_expire IS 'The next observations that may ever expire, in the order of their keys; one row each.';

-- As memory.sweep_stages, but that nothing is tried dry and no examples are given. Each change is an event. What is resolved here may
-- be due to be evicted as well: then the next batch begins where this one did.
CREATE OR REPLACE FUNCTION memory.expire(
    p_agent text, p_after bigint[], p_most integer, p_changes integer, p_defaults jsonb, p_at timestamptz,
    OUT last bigint[], OUT changed integer, OUT examples jsonb
)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    v_agents bigint[]; v_scopes bigint[]; v_seqs integer[];
BEGIN
    SELECT array_agg(n.agent_key), array_agg(n.scope_id), array_agg(n.seq) INTO v_agents, v_scopes, v_seqs
    FROM memory.next_that_may_expire(p_agent, p_after, p_most) n;
    IF cardinality(v_seqs) = p_most THEN  -- there may be more
        last := ARRAY[v_agents[p_most], v_scopes[p_most], v_seqs[p_most]];
    END IF;
    SELECT array_agg(d.agent_key), array_agg(d.scope_id), array_agg(d.seq) INTO v_agents, v_scopes, v_seqs
    FROM (
        SELECT d.* FROM memory.expiring_of(v_agents, v_scopes, v_seqs, p_defaults, p_at) d ORDER BY d.place LIMIT p_changes
    ) d;
    changed := coalesce(cardinality(v_seqs), 0);
    IF changed = p_changes THEN
        last := ARRAY[v_agents[changed], v_scopes[changed], v_seqs[changed]];
    END IF;
    SELECT array_agg(k.agent_key), array_agg(k.scope_id), array_agg(k.seq) INTO v_agents, v_scopes, v_seqs
    FROM memory.lock_swept(v_agents, v_scopes, v_seqs) k;
    WITH due AS MATERIALIZED (
        SELECT d.*, CASE d.why WHEN 'expired' THEN 'archived' ELSE 'evicted' END AS becomes
        FROM memory.expiring_of(v_agents, v_scopes, v_seqs, p_defaults, p_at) d
    ), stored AS (
        INSERT INTO memory.observation_states AS t (agent_key, scope_id, seq, status, status_at, expires_at, resolved, resolved_at)
        SELECT d.agent_key, d.scope_id, d.seq, d.becomes, p_at, CASE WHEN d.why <> 'expired' THEN d.due_at END,
               CASE WHEN d.why = 'expired' THEN 'expired' END, CASE WHEN d.why = 'expired' THEN d.due_at END
        FROM due d
        ON CONFLICT ON CONSTRAINT observation_states_pkey DO UPDATE
        SET status = excluded.status, status_at = excluded.status_at, expires_at = excluded.expires_at,
            superseded_by = CASE WHEN excluded.status = 'archived' THEN t.superseded_by END,
            resolved = coalesce(excluded.resolved, t.resolved), resolved_at = coalesce(excluded.resolved_at, t.resolved_at)
    ), told AS (
        INSERT INTO memory.events (agent_key, kind, scope_id, seq, detail, created_at)
        SELECT d.agent_key, 'status', d.scope_id, d.seq, jsonb_build_object(
            'from', CASE d.why WHEN 'resolved' THEN 'archived' ELSE 'active' END, 'to', d.becomes, 'why', d.why
        ), p_at
        FROM due d
        ORDER BY d.agent_key, d.scope_id, d.seq
    )
    SELECT count(*), array_agg(d.agent_key), array_agg(d.scope_id), array_agg(d.seq) INTO changed, v_agents, v_scopes, v_seqs FROM due d;
    PERFORM memory.refresh_due(k.agent_key, array_agg(DISTINCT k.scope_id), (p_defaults ->> 'consolidation_threshold')::integer, p_at)
    FROM unnest(v_agents, v_scopes) k(agent_key, scope_id)
    GROUP BY k.agent_key;
    IF EXISTS (SELECT FROM memory.expiring_of(v_agents, v_scopes, v_seqs, p_defaults, p_at)) THEN
        last := p_after;
    END IF;
END
$$;

COMMENT ON FUNCTION memory.expire IS 'Takes out of use what expires among the next observations at a moment; one row says how many.';
