CREATE OR REPLACE FUNCTION memory.refresh_due(p_agent bigint, p_scopes bigint[], p_threshold integer, p_at timestamptz)
RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_scope bigint;
    v_due timestamptz;
    v_is_due boolean := false;
BEGIN
    PERFORM memory.evict_buffers(p_agent, p_scopes, p_at);
    FOREACH v_scope IN ARRAY coalesce(p_scopes, '{}') LOOP  -- one by one: no plan may read all scopes of the agent
        UPDATE memory.scopes s
        SET due_at = CASE WHEN is_due.sooner THEN p_at WHEN is_due.yes THEN coalesce(s.due_at, p_at) END, rebuild = s.rebuild AND is_due.waits,
            waits_below = is_due.threshold
        FROM (
            SELECT c.is_active AND c.consolidate AND (c.rebuild OR c.last_seq > c.held_seq OR c.due_at IS NOT NULL)
                   AND (wanted.pending <= found.pending OR long.enough) AS yes,
                   c.is_active AND c.consolidate AND c.due_at > p_at AND c.held_seq > 0 AND c.held_seq >= c.done_seq
                   AND c.last_seq > c.held_seq AND c.failures = 0 AND c.errors = 0 AND (wanted.pending <= found.pending OR long.enough) AS sooner,
                   found.pending > 0 AS waits, least.threshold
            FROM memory.scopes c
            JOIN memory.agents a ON a.agent_key = p_agent
            CROSS JOIN LATERAL (
                SELECT coalesce(
                    c.consolidation_threshold,
                    memory.number_setting(a.settings, 'consolidation_threshold', p_threshold)::integer
                ) AS threshold
            ) least
            CROSS JOIN LATERAL (SELECT CASE WHEN c.rebuild THEN 1 ELSE least.threshold END AS pending) wanted
            CROSS JOIN LATERAL (
                SELECT count(*) AS pending
                FROM (SELECT FROM memory.pending_observations(p_agent, v_scope, c.done_seq, wanted.pending) LIMIT wanted.pending) enough
            ) found
            CROSS JOIN LATERAL (SELECT coalesce(memory.is_long(p_agent, v_scope, c.done_seq, c.consolidation_characters), false) AS enough) long
            WHERE c.agent_key = p_agent AND c.scope_id = v_scope
        ) is_due
        WHERE s.agent_key = p_agent AND s.scope_id = v_scope
          AND ((s.due_at IS NOT NULL) IS DISTINCT FROM is_due.yes OR s.rebuild AND NOT is_due.waits
               OR s.waits_below <> is_due.threshold OR is_due.sooner)
        RETURNING s.due_at INTO v_due;
        v_is_due := v_is_due OR FOUND AND v_due IS NOT NULL;
    END LOOP;
    IF v_is_due THEN
        PERFORM pg_notify('memory_due', '');
    END IF;
END
$$;
COMMENT ON FUNCTION memory.refresh_due IS 'Sets or clears scopes.due_at from what is pending.';
