-- memory.refresh_due(agent_key, scope_ids, threshold, at): updates which of these scopes are due, and wakes the workers
-- when one has become so. First it evicts what exceeds their buffers (memory.evict_buffers). Belongs at the end of every transaction that adds observations or changes their status, lane or
-- the watermark; the caller holds the scopes' row locks. A scope that was due already keeps its time. One whose text was
-- just undone waits for something new. One that has lost its text, because something in it was forgotten, is due whatever
-- the threshold, until nothing waits (`rebuild`). The threshold is the scope's own, else the agent's, else the one that is
-- given.
CREATE OR REPLACE FUNCTION memory.refresh_due(p_agent bigint, p_scopes bigint[], p_threshold integer, p_at timestamptz)
RETURNS void
LANGUAGE sql VOLATILE
AS $$
    SELECT memory.evict_buffers(p_agent, p_scopes, p_at);
    WITH changed AS (
        UPDATE memory.scopes s
        SET due_at = CASE WHEN is_due.yes THEN coalesce(s.due_at, p_at) END, rebuild = s.rebuild AND is_due.waits
        FROM (
            SELECT c.scope_id, c.is_active AND c.consolidate AND c.dead_run_id IS NULL AND (c.rebuild OR c.last_seq > c.held_seq)
                AND wanted.pending <= found.pending AS yes,
                   found.pending > 0 AS waits
            FROM memory.scopes c
            JOIN memory.agents a ON a.agent_key = c.agent_key
            CROSS JOIN LATERAL (
                SELECT CASE WHEN c.rebuild THEN 1 ELSE coalesce(
                    c.consolidation_threshold,
                    memory.number_setting(a.settings, 'consolidation_threshold', p_threshold)::integer
                ) END AS pending
            ) wanted
            CROSS JOIN LATERAL (
                SELECT count(*) AS pending
                FROM (
                    SELECT FROM memory.pending_observations(c.agent_key, c.scope_id, c.done_seq) LIMIT wanted.pending
                ) enough
            ) found
            WHERE c.agent_key = p_agent AND c.scope_id = ANY (p_scopes)
        ) is_due
        WHERE s.agent_key = p_agent AND s.scope_id = is_due.scope_id
          AND ((s.due_at IS NOT NULL) IS DISTINCT FROM is_due.yes OR s.rebuild AND NOT is_due.waits)
        RETURNING s.due_at
    )
    SELECT pg_notify('memory_due', '') FROM changed WHERE due_at IS NOT NULL LIMIT 1
$$;

COMMENT ON FUNCTION memory.refresh_due(bigint, bigint[], integer, timestamptz) IS
    'Sets or clears scopes.due_at from what is pending.';
