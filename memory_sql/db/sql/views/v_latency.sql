-- memory.v_latency: how long messages take to become memory. One row per agent, day (UTC) and step. Formation: from when a
-- message was stored until the first run that read it had ended. Consolidation: from when an observation was stored
-- until the first consolidation that passed it had ended. Each message or observation counts once, on the day on which its
-- step was done. What still waits is in v_formation_funnel and v_pending.
CREATE OR REPLACE VIEW memory.v_latency WITH (security_invoker = true) AS
SELECT
    a.agent_id,
    e.day,
    e.step,
    e.items,
    round(e.percentiles[1]::numeric, 3)::double precision AS p50_seconds,
    round(e.percentiles[2]::numeric, 3)::double precision AS p90_seconds,
    round(e.percentiles[3]::numeric, 3)::double precision AS p99_seconds,
    round(e.percentiles[4]::numeric, 3)::double precision AS slowest_seconds
FROM memory.agents a
CROSS JOIN LATERAL (
    SELECT
        (w.done_at AT TIME ZONE 'UTC')::date AS day,
        w.step,
        count(*) AS items,
        percentile_cont(ARRAY[0.5, 0.9, 0.99, 1]) WITHIN GROUP (
            ORDER BY greatest(extract(epoch FROM w.done_at - w.created_at), 0)::double precision
        ) AS percentiles
    FROM (
        SELECT 'formation' AS step, m.created_at, min(r.finished_at) AS done_at
        FROM memory.runs r
        JOIN memory.messages m
            ON m.agent_key = r.agent_key AND m.conversation_id = r.conversation_id
            AND m.number > r.from_number AND m.number <= r.to_number
        WHERE r.agent_key = a.agent_key AND r.kind = 'formation' AND r.state IN ('succeeded', 'empty', 'retired') AND m.eligible
        GROUP BY m.agent_key, m.conversation_id, m.number
        UNION ALL
        SELECT 'consolidation', o.created_at, min(r.finished_at)
        FROM memory.runs r
        JOIN memory.observations o
            ON o.agent_key = r.agent_key AND o.scope_id = r.scope_id AND o.seq > r.from_seq AND o.seq <= r.to_seq
        WHERE r.agent_key = a.agent_key AND r.kind = 'consolidation' AND r.state = 'succeeded' AND o.lane = 'absorb'
        GROUP BY o.agent_key, o.scope_id, o.seq
    ) w
    GROUP BY 1, 2
) e;

COMMENT ON VIEW memory.v_latency IS
    'One row per agent, day (UTC) and step: how long messages waited for formation, and observations for consolidation.';

COMMENT ON COLUMN memory.v_latency.agent_id IS 'The host''s id for the agent.';
COMMENT ON COLUMN memory.v_latency.day IS 'The day, in UTC, on which the step was done.';
COMMENT ON COLUMN memory.v_latency.step IS 'formation (of messages) or consolidation (of observations).';
COMMENT ON COLUMN memory.v_latency.items IS 'Number of messages first read that day, or of observations first consolidated that day.';
COMMENT ON COLUMN memory.v_latency.p50_seconds IS 'Median wait in seconds, from storing to the end of the step.';
COMMENT ON COLUMN memory.v_latency.p90_seconds IS '90th percentile of the wait, in seconds.';
COMMENT ON COLUMN memory.v_latency.p99_seconds IS '99th percentile of the wait, in seconds.';
COMMENT ON COLUMN memory.v_latency.slowest_seconds IS 'Longest wait, in seconds.';
