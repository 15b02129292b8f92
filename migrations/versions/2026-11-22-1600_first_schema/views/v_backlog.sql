CREATE OR REPLACE VIEW memory.v_backlog WITH (security_invoker = true) AS
SELECT a.agent_id, w.work, w.state, count(*) AS waiting, min(w.since) AS oldest_at, now() - min(w.since) AS oldest_age
FROM (
    SELECT c.agent_key, 'formation' AS work, 'due' AS state, c.due_at AS since
    FROM memory.conversations c
    WHERE c.due_at <= now() AND (c.lease_until IS NULL OR c.lease_until < clock_timestamp())
    UNION ALL
    SELECT c.agent_key, 'formation', 'in_progress', c.due_at
    FROM memory.conversations c
    WHERE c.lease_until IS NOT NULL AND c.lease_until >= clock_timestamp()
    UNION ALL
    SELECT c.agent_key, 'formation', 'retrying', c.unformed_since
    FROM memory.conversations c
    WHERE c.due_at > now() AND (c.failures > 0 OR c.errors > 0)
    UNION ALL
    SELECT c.agent_key, 'formation', 'not_due', c.unformed_since
    FROM memory.conversations c
    WHERE c.due_at > now() AND c.failures = 0 AND c.errors = 0 AND (c.lease_until IS NULL OR c.lease_until < clock_timestamp())
    UNION ALL
    SELECT s.agent_key, 'consolidation', 'due', s.due_at
    FROM memory.scopes s
    WHERE s.due_at <= now() AND (s.lease_until IS NULL OR s.lease_until < clock_timestamp())
    UNION ALL
    SELECT s.agent_key, 'propagation', 'due', s.propagate_at
    FROM memory.scopes s
    WHERE s.propagate_at <= now() AND (s.lease_until IS NULL OR s.lease_until < clock_timestamp())
    UNION ALL
    SELECT s.agent_key, 'recheck', CASE
               WHEN s.recheck_at <= now() THEN 'due' WHEN r.error_code IS NULL THEN 'not_due' ELSE 'retrying'
           END, CASE WHEN s.recheck_at <= now() THEN s.recheck_at END
    FROM memory.scopes s
    JOIN memory.agents g ON g.agent_key = s.agent_key
    LEFT JOIN LATERAL (
        SELECT r.error_code FROM memory.runs r
        WHERE r.agent_key = s.agent_key AND r.scope_id = s.scope_id AND r.kind = 'recheck'
        ORDER BY r.run_id DESC LIMIT 1
    ) r ON s.recheck_at > now()
    WHERE s.recheck_at IS NOT NULL AND (s.lease_until IS NULL OR s.lease_until < clock_timestamp())
      AND (g.settings -> 'recheck') IS DISTINCT FROM 'false'
    UNION ALL
    SELECT s.agent_key, i.work, 'in_progress',
           CASE i.work WHEN 'recheck' THEN s.recheck_at ELSE coalesce(s.due_at, s.propagate_at) END
    FROM memory.scopes s
    LEFT JOIN LATERAL (  -- one lease serves all three
        SELECT r.kind = 'recheck' AS is_recheck FROM memory.runs r
        WHERE r.agent_key = s.agent_key AND r.scope_id = s.scope_id AND r.fence = s.fence AND r.finished_at IS NULL
        LIMIT 1
    ) r ON true
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN coalesce(r.is_recheck, s.due_at IS NULL AND s.propagate_at IS NULL AND s.recheck_at IS NOT NULL) THEN 'recheck'
            WHEN s.due_at IS NULL THEN 'propagation'
            ELSE 'consolidation'
        END AS work
    ) i
    WHERE s.lease_until IS NOT NULL AND s.lease_until >= clock_timestamp()
    UNION ALL
    SELECT s.agent_key, 'consolidation', 'retrying', NULL
    FROM memory.scopes s
    WHERE s.due_at > now() AND (s.failures > 0 OR s.errors > 0)
    UNION ALL
    SELECT s.agent_key, 'propagation', 'retrying', NULL
    FROM memory.scopes s
    WHERE s.propagate_at > now() AND (s.propagation_failures > 0 OR s.propagation_errors > 0)
    UNION ALL
    SELECT r.agent_key, r.kind, 'given_up', r.finished_at
    FROM memory.runs r
    WHERE r.state = 'dead'
) w
JOIN memory.agents a ON a.agent_key = w.agent_key
GROUP BY a.agent_id, w.work, w.state;
COMMENT ON VIEW memory.v_backlog IS 'One row per agent, kind of work and state that has any: how many wait, and since when the oldest.';
COMMENT ON COLUMN memory.v_backlog.agent_id IS 'The host''s id for the agent.';
COMMENT ON COLUMN memory.v_backlog.work IS 'formation (of conversations), consolidation, propagation or recheck (of scopes).';
COMMENT ON COLUMN memory.v_backlog.state IS 'due, not_due (a conversation that is formed after a silence, a scope that is rechecked later), in_progress, retrying or given_up.';
COMMENT ON COLUMN memory.v_backlog.waiting IS 'Number of conversations, of scopes, or (given_up) of runs; a scope may count for several kinds of work.';
COMMENT ON COLUMN memory.v_backlog.oldest_at IS 'When the oldest became due or was given up; for conversations that aren''t due or are retried, when their oldest unread message was stored; otherwise null.';
COMMENT ON COLUMN memory.v_backlog.oldest_age IS 'Time since oldest_at, as an interval; null if oldest_at is.';
