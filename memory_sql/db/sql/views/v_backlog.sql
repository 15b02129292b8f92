-- memory.v_backlog: counts of waiting work. One row per agent, work (formation of conversations, consolidation or
-- propagation of scopes) and state that has any. due: can be done now, and no worker has it; not_due: will
-- be after a silence; in_progress: a worker has it; retrying: it failed and will be retried automatically; given_up: its
-- answers were unusable, and it is retried after a day at least.
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
    SELECT s.agent_key, CASE WHEN s.due_at IS NULL THEN 'propagation' ELSE 'consolidation' END, 'in_progress',
           coalesce(s.due_at, s.propagate_at)
    FROM memory.scopes s
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
COMMENT ON COLUMN memory.v_backlog.work IS 'formation (of conversations), consolidation or propagation (of scopes).';
COMMENT ON COLUMN memory.v_backlog.state IS 'due, not_due (a conversation that is formed after a silence), in_progress, retrying or given_up.';
COMMENT ON COLUMN memory.v_backlog.waiting IS 'Number of conversations, of scopes, or (given_up) of runs; a scope may count for two kinds of work.';
COMMENT ON COLUMN memory.v_backlog.oldest_at IS 'When the oldest became due or was given up; for conversations that aren''t due or are retried, when their oldest unread message was stored; otherwise null.';
COMMENT ON COLUMN memory.v_backlog.oldest_age IS 'Time since oldest_at, as an interval; null if oldest_at is.';
