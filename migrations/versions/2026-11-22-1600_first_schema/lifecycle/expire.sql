CREATE OR REPLACE FUNCTION memory.expire(p_agent text, p_defaults jsonb, p_at timestamptz, p_most bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_agents bigint[];
    v_scopes bigint[];
    v_seqs integer[];
    v_changed bigint;
    v_agent bigint;
BEGIN
    SELECT array_agg(f.agent_key), array_agg(f.scope_id), array_agg(f.seq) INTO v_agents, v_scopes, v_seqs
    FROM (
        SELECT d.agent_key, d.scope_id, d.seq
        FROM memory.expiring(p_agent, p_defaults, p_at) d
        JOIN memory.agents a ON a.agent_key = d.agent_key
        JOIN memory.scopes s ON s.agent_key = d.agent_key AND s.scope_id = d.scope_id
        ORDER BY d.agent_key, d.scope_id, d.seq
        LIMIT p_most
        FOR SHARE OF a SKIP LOCKED FOR NO KEY UPDATE OF s SKIP LOCKED
    ) f;
    IF v_agents IS NULL THEN
        RETURN 0;
    END IF;
    WITH due AS MATERIALIZED (
        SELECT d.*, CASE d.why WHEN 'expired' THEN 'archived' ELSE 'evicted' END AS becomes
        FROM memory.expiring(p_agent, p_defaults, p_at) d
        JOIN unnest(v_agents, v_scopes, v_seqs) AS k (agent_key, scope_id, seq) USING (agent_key, scope_id, seq)
    ), changed AS (
        INSERT INTO memory.observation_states AS t (agent_key, scope_id, seq, status, status_at, expires_at, resolved, resolved_at)
        SELECT d.agent_key, d.scope_id, d.seq, d.becomes, p_at, CASE WHEN d.why <> 'expired' THEN d.due_at END,
               CASE WHEN d.why = 'expired' THEN 'expired' END, CASE WHEN d.why = 'expired' THEN d.due_at END
        FROM due d
        ON CONFLICT (agent_key, scope_id, seq) DO UPDATE
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
    SELECT count(*) INTO v_changed FROM due;
    FOR v_agent IN SELECT DISTINCT k.agent_key FROM unnest(v_agents) AS k (agent_key) ORDER BY k.agent_key LOOP
        PERFORM memory.refresh_due(v_agent, ARRAY(
            SELECT DISTINCT k.scope_id FROM unnest(v_agents, v_scopes) AS k (agent_key, scope_id)
            WHERE k.agent_key = v_agent ORDER BY k.scope_id
        ), (p_defaults ->> 'consolidation_threshold')::integer, p_at);
    END LOOP;
    RETURN v_changed;
END
$$;
COMMENT ON FUNCTION memory.expire IS 'Takes out of use what expires at a moment; one value: how many observations.';
