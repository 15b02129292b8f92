CREATE OR REPLACE FUNCTION memory.static_layer_at(
    p_agent text, p_user text, p_conversation text, p_pending_max bigint, p_scopes_max bigint, p_as_of timestamptz
) RETURNS TABLE (
    scope_id bigint, kind text, owner text, name text, display_name text, consolidation text, version integer,
    pending_seqs integer[], pending_contents text[], pending_times timestamptz[], pending_more bigint,
    disputed_seqs integer[], disputed_contents text[], disputed_times timestamptz[],
    buffer_seqs integer[], buffer_contents text[], buffer_times timestamptz[],
    speakers text[], scopes_more bigint, settings jsonb
)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    v_settings jsonb;
    v_pending_max bigint;
    v_scopes_max bigint;
    v_shown bigint;
BEGIN
    SELECT nullif(a.settings, '{}'), memory.number_setting(a.settings, 'pending_max', p_pending_max)::bigint,
           memory.number_setting(a.settings, 'context_scopes_max', p_scopes_max)::bigint
    INTO v_settings, v_pending_max, v_scopes_max
    FROM memory.agents a
    WHERE a.agent_id = p_agent AND p_user IS NOT NULL;
    RETURN QUERY
    WITH known AS MATERIALIZED (
        SELECT k.* FROM memory.known_at(p_agent, p_user, p_conversation, p_as_of) k WHERE k.pending OR memory.in_use(k.status)
    )
    SELECT s.scope_id, s.kind, s.owner, s.name, s.display_name, c.content, coalesce(c.version, 0), p.seqs, p.contents, p.times,
           CASE  -- counted only if some may be left over
               WHEN coalesce(cardinality(p.seqs), 0) < v_pending_max THEN 0
               ELSE (
                   SELECT count(*) FROM known k WHERE k.scope_id = s.scope_id AND k.pending
               ) - coalesce(cardinality(p.seqs), 0)
           END, d.seqs, d.contents, d.times, b.seqs, b.contents, b.times, s.speakers, NULL::bigint, v_settings
    FROM (
        SELECT s.agent_key, s.scope_id, s.kind, s.owner, s.name, s.display_name, s.lanes, s.buffer_max, s.speakers
        FROM memory.visible_scopes(p_agent, p_user, p_conversation, p_as_of) v
        JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id
        WHERE s.is_active AND (s.last_seq > 0 OR s.version > 0) AND s.created_at <= p_as_of
        ORDER BY memory.scope_rank(s.kind, s.name), greatest(s.last_activity_at, s.consolidated_at) DESC, s.scope_id
        LIMIT v_scopes_max
    ) s
    LEFT JOIN LATERAL (
        SELECT c.content, c.version
        FROM memory.consolidations c
        WHERE c.agent_key = s.agent_key AND c.scope_id = s.scope_id
          AND c.created_at <= p_as_of AND (c.live_until IS NULL OR c.live_until > p_as_of)
        ORDER BY c.version DESC
        LIMIT 1
    ) c ON true
    CROSS JOIN LATERAL (
        SELECT array_agg(n.seq) AS seqs, array_agg(n.content) AS contents, array_agg(n.observed_at) AS times
        FROM (
            SELECT o.seq, o.content, coalesce(k.said_again_at, o.observed_at) AS observed_at
            FROM known k
            JOIN memory.observations o ON o.agent_key = k.agent_key AND o.scope_id = k.scope_id AND o.seq = k.seq
            WHERE k.scope_id = s.scope_id AND k.pending
            ORDER BY CASE WHEN max(k.said_again_at) OVER () IS NOT NULL THEN coalesce(k.said_again_at, o.observed_at) END DESC, o.seq DESC
            LIMIT v_pending_max
        ) n
    ) p
    CROSS JOIN LATERAL (
        SELECT array_agg(n.seq) AS seqs, array_agg(n.content) AS contents, array_agg(n.observed_at) AS times
        FROM (
            SELECT o.seq, o.content, coalesce((
                SELECT k.said_again_at FROM known k WHERE k.scope_id = t.scope_id AND k.seq = t.seq
            ), o.observed_at) AS observed_at
            FROM memory.observation_states t
            JOIN memory.observations o ON o.agent_key = t.agent_key AND o.scope_id = t.scope_id AND o.seq = t.seq
            WHERE t.agent_key = s.agent_key AND t.scope_id = s.scope_id AND t.verification = 'disputed'
              AND memory.in_use(t.status) AND o.created_at <= p_as_of
            ORDER BY o.seq DESC
            LIMIT v_pending_max
        ) n
    ) d
    CROSS JOIN LATERAL (
        SELECT array_agg(n.seq) AS seqs, array_agg(n.content) AS contents, array_agg(n.observed_at) AS times
        FROM (
            SELECT o.seq, o.content, o.observed_at
            FROM known k
            JOIN memory.observations o ON o.agent_key = k.agent_key AND o.scope_id = k.scope_id AND o.seq = k.seq
            WHERE s.lanes <> 'absorb' AND k.scope_id = s.scope_id AND o.lane = 'buffer'
            ORDER BY o.seq DESC
            LIMIT s.buffer_max
        ) n
    ) b;
    GET DIAGNOSTICS v_shown = ROW_COUNT;
    IF v_shown = v_scopes_max THEN
        SELECT nullif(count(*) - v_shown, 0) INTO scopes_more
        FROM memory.visible_scopes(p_agent, p_user, p_conversation, p_as_of) v
        JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id
        WHERE s.is_active AND (s.last_seq > 0 OR s.version > 0) AND s.created_at <= p_as_of;
    END IF;
    IF v_pending_max IS NULL AND p_user IS NOT NULL THEN  -- there is no such agent
        scopes_more := 0;
    END IF;
    IF scopes_more IS NOT NULL OR (v_shown = 0 AND v_settings IS NOT NULL) THEN
        settings := v_settings;
        RETURN NEXT;
    END IF;
END
$$;
REVOKE EXECUTE ON FUNCTION memory.static_layer_at(text, text, text, bigint, bigint, timestamptz) FROM PUBLIC;
COMMENT ON FUNCTION memory.static_layer_at(text, text, text, bigint, bigint, timestamptz) IS
    'The texts and newest pending observations that a user of an agent would have been shown at a given time; one row per scope.';
