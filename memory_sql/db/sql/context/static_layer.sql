-- memory.static_layer(agent, user, conversation, pending_max, scopes_max): what a context shows of the scopes that the
-- principal may see. One row per active scope that has ever held anything, unordered. If there are more than scopes_max,
-- those with the lowest memory.scope_rank, then those whose text or observations changed last, then the older ones. A row
-- has the scope's text; at most pending_max of its newest pending observations, in three arrays of equal length, newest
-- first (by number; by when they were said, where one of them was said again), and how many more are pending; its disputed
-- observations and its buffer, in the same form; and who speaks in it.
-- Arrays are null if there are none. The agent's own settings are the same in each row, null if it has none; a pending_max
-- or context_scopes_max among them takes precedence over the argument. The last row has no scope if scopes were left out
-- (scopes_more; 0: there is no such agent), or if there are settings but no scope. Row-level policies don't apply: it runs as its owner and calls
-- memory.visible_scopes itself, so that it takes one round trip, without naming a principal first.
CREATE OR REPLACE FUNCTION memory.static_layer(
    p_agent text, p_user text, p_conversation text, p_pending_max bigint, p_scopes_max bigint
)
RETURNS TABLE (
    scope_id bigint, kind text, owner text, name text, display_name text, consolidation text, version integer,
    pending_seqs integer[], pending_contents text[], pending_times timestamptz[], pending_more bigint,
    disputed_seqs integer[], disputed_contents text[], disputed_times timestamptz[],
    buffer_seqs integer[], buffer_contents text[], buffer_times timestamptz[],
    speakers text[], scopes_more bigint, settings jsonb
)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
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
    SELECT s.scope_id, s.kind, s.owner, s.name, s.display_name, c.content, s.version, p.seqs, p.contents, p.times,
           CASE  -- counted only if some may be left over
               WHEN coalesce(cardinality(p.seqs), 0) < v_pending_max THEN 0
               ELSE (
                   SELECT count(*) FROM memory.pending_observations(s.agent_key, s.scope_id, s.done_seq)
               ) - coalesce(cardinality(p.seqs), 0)
           END, d.seqs, d.contents, d.times, b.seqs, b.contents, b.times, s.speakers, NULL::bigint, v_settings
    FROM (
        SELECT s.agent_key, s.scope_id, s.kind, s.owner, s.name, s.display_name, s.version, s.done_seq, s.lanes, s.buffer_max,
               s.speakers
        FROM memory.visible_scopes(p_agent, p_user, p_conversation) v
        JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id
        WHERE s.is_active AND (s.last_seq > 0 OR s.version > 0)
        ORDER BY memory.scope_rank(s.kind, s.name), greatest(s.last_activity_at, s.consolidated_at) DESC, s.scope_id
        LIMIT v_scopes_max
    ) s
    LEFT JOIN memory.consolidations c ON c.agent_key = s.agent_key AND c.scope_id = s.scope_id AND c.version = s.version
    CROSS JOIN LATERAL (
        SELECT array_agg(n.seq) AS seqs, array_agg(n.content) AS contents, array_agg(n.observed_at) AS times
        FROM (
            SELECT o.seq, o.content, o.observed_at
            FROM memory.pending_observations(s.agent_key, s.scope_id, s.done_seq, v_pending_max) o
            ORDER BY CASE WHEN max(o.said_again_at) OVER () IS NOT NULL THEN o.observed_at END DESC, o.seq DESC
            LIMIT v_pending_max
        ) n
    ) p
    CROSS JOIN LATERAL (
        SELECT array_agg(n.seq) AS seqs, array_agg(n.content) AS contents, array_agg(n.observed_at) AS times
        FROM (
            SELECT o.seq, o.content, coalesce(o.said_again_at, o.observed_at) AS observed_at
            FROM memory.observation_states t
            JOIN memory.observations o ON o.agent_key = t.agent_key AND o.scope_id = t.scope_id AND o.seq = t.seq
            WHERE t.agent_key = s.agent_key AND t.scope_id = s.scope_id AND t.verification = 'disputed'
              AND memory.in_use(t.status)
            ORDER BY o.seq DESC
            LIMIT v_pending_max
        ) n
    ) d
    CROSS JOIN LATERAL (
        SELECT array_agg(n.seq) AS seqs, array_agg(n.content) AS contents, array_agg(n.observed_at) AS times
        FROM (
            SELECT o.seq, o.content, o.observed_at
            FROM memory.observations o
            WHERE s.lanes <> 'absorb' AND o.agent_key = s.agent_key AND o.scope_id = s.scope_id AND o.lane = 'buffer'
              AND o.standing = 'active'
            ORDER BY o.seq DESC
            LIMIT s.buffer_max
        ) n
    ) b;
    GET DIAGNOSTICS v_shown = ROW_COUNT;
    IF v_shown = v_scopes_max THEN
        SELECT nullif(count(*) - v_shown, 0) INTO scopes_more
        FROM memory.visible_scopes(p_agent, p_user, p_conversation) v
        JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id
        WHERE s.is_active AND (s.last_seq > 0 OR s.version > 0);
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

REVOKE EXECUTE ON FUNCTION memory.static_layer(text, text, text, bigint, bigint) FROM PUBLIC;

COMMENT ON FUNCTION memory.static_layer(text, text, text, bigint, bigint) IS
    'The texts and newest pending observations of the scopes that a user of an agent may see; one row per scope.';
