-- memory.v_waiting: what waits and why. One row per conversation to be formed and scope to be consolidated, propagated or
-- rechecked that is due, will be due, or was given up. `reason` is what stands in the way:
-- unclaimed (due, and no worker has taken it), in_progress, failing (retried after a pause), given_up (retried after a day
-- or more), left_out (its text couldn't tell everything; told again later) or not_due (after a silence, on another day,
-- or a while after the last recheck).
CREATE OR REPLACE VIEW memory.v_waiting WITH (security_invoker = true) AS
SELECT
    a.agent_id, w.work, w.conversation_id, w.scope_id, w.since, now() - w.since AS age,
    CASE
        WHEN w.given_up THEN 'given_up'
        WHEN w.leased THEN 'in_progress'
        WHEN w.failures > 0 THEN 'failing'
        WHEN w.due_at <= now() THEN 'unclaimed'
        WHEN w.told IS FALSE THEN 'left_out'
        ELSE 'not_due'
    END AS reason,
    w.error_code,
    w.due_at
FROM (
    SELECT
        c.agent_key, 'formation' AS work, c.conversation_id, NULL::bigint AS scope_id, c.unformed_since AS since, c.due_at,
        false AS given_up, coalesce(c.lease_until >= clock_timestamp(), false) AS leased,
        c.failures + c.errors AS failures, true AS told, r.error_code
    FROM memory.conversations c
    LEFT JOIN LATERAL (
        SELECT r.error_code FROM memory.runs r
        WHERE r.agent_key = c.agent_key AND r.conversation_id = c.conversation_id AND r.error_code IS NOT NULL
        ORDER BY r.run_id DESC LIMIT 1
    ) r ON c.failures > 0 OR c.errors > 0
    WHERE c.due_at IS NOT NULL
    UNION ALL
    SELECT
        s.agent_key, 'consolidation', NULL, s.scope_id, p.oldest_at, s.due_at,
        false, coalesce(s.lease_until >= clock_timestamp(), false), s.failures + s.errors,
        NOT EXISTS (
            SELECT FROM memory.observation_states t
            WHERE t.agent_key = s.agent_key AND t.scope_id = s.scope_id AND t.seq <= s.done_seq AND t.repend
        ),
        r.error_code
    FROM memory.scopes s
    CROSS JOIN LATERAL (  -- as memory.v_pending has it, of what is due alone
        SELECT min(w.created_at) AS oldest_at
        FROM memory.pending_since(s.agent_key, s.scope_id, s.done_seq) w
    ) p
    LEFT JOIN LATERAL (
        SELECT r.error_code FROM memory.runs r
        WHERE r.agent_key = s.agent_key AND r.scope_id = s.scope_id AND r.kind = 'consolidation' AND r.error_code IS NOT NULL
        ORDER BY r.run_id DESC LIMIT 1
    ) r ON s.failures > 0 OR s.errors > 0
    WHERE s.due_at IS NOT NULL
    UNION ALL
    SELECT
        s.agent_key, 'propagation', NULL, s.scope_id, s.consolidated_at, s.propagate_at,
        false, coalesce(s.lease_until >= clock_timestamp(), false), s.propagation_failures + s.propagation_errors, true,
        r.error_code
    FROM memory.scopes s
    LEFT JOIN LATERAL (
        SELECT r.error_code FROM memory.runs r
        WHERE r.agent_key = s.agent_key AND r.scope_id = s.scope_id AND r.kind = 'propagation' AND r.error_code IS NOT NULL
        ORDER BY r.run_id DESC LIMIT 1
    ) r ON s.propagation_failures > 0 OR s.propagation_errors > 0
    WHERE s.propagate_at IS NOT NULL
    UNION ALL
    SELECT
        s.agent_key, 'recheck', NULL, s.scope_id, s.consolidated_at, s.recheck_at,
        false, coalesce(s.lease_until >= clock_timestamp(), false), CASE WHEN r.error_code IS NULL THEN 0 ELSE 1 END, true,
        r.error_code
    FROM memory.scopes s
    JOIN memory.agents g ON g.agent_key = s.agent_key
    LEFT JOIN LATERAL (  -- whether the last one failed
        SELECT r.error_code FROM memory.runs r
        WHERE r.agent_key = s.agent_key AND r.scope_id = s.scope_id AND r.kind = 'recheck'
        ORDER BY r.run_id DESC LIMIT 1
    ) r ON true
    WHERE s.recheck_at IS NOT NULL AND (g.settings -> 'recheck') IS DISTINCT FROM 'false'
    UNION ALL
    SELECT
        r.agent_key, r.kind, r.conversation_id, r.scope_id, coalesce(c.unformed_since, o.created_at), NULL,
        true, false, 0, true, r.error_code
    FROM memory.runs r
    LEFT JOIN memory.conversations c ON c.agent_key = r.agent_key AND c.conversation_id = r.conversation_id
    LEFT JOIN memory.observations o ON o.agent_key = r.agent_key AND o.scope_id = r.scope_id AND o.seq = r.to_seq
    WHERE r.state = 'dead'
) w
JOIN memory.agents a ON a.agent_key = w.agent_key;

COMMENT ON VIEW memory.v_waiting IS 'One row per conversation or scope whose work waits, and for a consolidation that was given up per observation: since when, and why.';
COMMENT ON COLUMN memory.v_waiting.agent_id IS 'The host''s id for the agent.';
COMMENT ON COLUMN memory.v_waiting.work IS 'formation (of a conversation), consolidation, propagation or recheck (of a scope).';
COMMENT ON COLUMN memory.v_waiting.conversation_id IS 'The host''s id for the conversation; null: it is a scope''s work.';
COMMENT ON COLUMN memory.v_waiting.scope_id IS 'The scope''s number: the API''s s12 is 12 here; null: it is a conversation''s work.';
COMMENT ON COLUMN memory.v_waiting.since IS 'When the oldest message or observation that waits was stored; of a propagation or recheck, when the text last changed.';
COMMENT ON COLUMN memory.v_waiting.age IS 'Time since then, as an interval.';
COMMENT ON COLUMN memory.v_waiting.reason IS 'unclaimed (due, but no worker has taken it), in_progress, failing (retried after a pause), given_up (retried after a day or more), left_out (its text couldn''t tell everything) or not_due (after a silence, when a day''s limit ends, or a while after the last recheck).';
COMMENT ON COLUMN memory.v_waiting.error_code IS 'What failed last, if it is failing or was given up; otherwise null.';
COMMENT ON COLUMN memory.v_waiting.due_at IS 'When it is due; null: it was given up.';
