CREATE OR REPLACE VIEW memory.v_model_cost WITH (security_invoker = true) AS
SELECT
    a.agent_id,
    (r.started_at AT TIME ZONE 'UTC')::date AS day,
    r.kind,
    r.model,
    count(*) AS runs,
    count(*) FILTER (WHERE r.error_code IS NOT NULL) AS failures,
    coalesce(sum(r.input_tokens), 0) AS input_tokens,
    coalesce(sum(r.output_tokens), 0) AS output_tokens,
    avg(r.latency_seconds) AS latency_seconds,
    max(r.latency_seconds) AS latency_seconds_max
FROM memory.runs r
JOIN memory.agents a ON a.agent_key = r.agent_key
GROUP BY 1, 2, 3, 4;
COMMENT ON VIEW memory.v_model_cost IS
    'One row per agent, day (UTC), kind of run and model: runs, failures, tokens in and out, mean and longest latency.';
