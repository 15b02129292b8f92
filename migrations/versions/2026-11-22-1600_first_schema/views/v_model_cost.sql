CREATE OR REPLACE VIEW memory.v_model_cost WITH (security_invoker = true) AS
SELECT
    e.agent_id,
    e.day,
    e.kind,
    e.model,
    e.runs,
    e.failures,
    e.input_tokens,
    e.output_tokens,
    e.latency_seconds,
    e.latency_seconds_max,
    round((e.input_tokens * p.input_per_million + e.output_tokens * p.output_per_million) / 1000000, 6) AS cost,
    p.currency
FROM (
    SELECT
        a.agent_id,
        (r.started_at AT TIME ZONE 'UTC')::date AS day,
        r.kind,
        r.model,
        count(*) AS runs,
        count(*) FILTER (WHERE r.error_code IS NOT NULL) AS failures,
        coalesce(sum(r.input_tokens), 0) AS input_tokens,
        coalesce(sum(r.output_tokens), 0) AS output_tokens,
        round(avg(r.latency_seconds)::numeric, 3)::double precision AS latency_seconds,
        max(r.latency_seconds) AS latency_seconds_max
    FROM memory.runs r
    JOIN memory.agents a ON a.agent_key = r.agent_key
    GROUP BY 1, 2, 3, 4
) e
LEFT JOIN LATERAL (
    SELECT c.currency, c.input_per_million, c.output_per_million
    FROM memory.prices c
    WHERE c.model = e.model AND c.valid_from <= e.day
    ORDER BY c.valid_from DESC
    LIMIT 1
) p ON true;
COMMENT ON VIEW memory.v_model_cost IS
    'One row per agent, day (UTC), kind of run and model: runs, failures, tokens in and out, latency, cost.';
COMMENT ON COLUMN memory.v_model_cost.agent_id IS 'The host''s id for the agent.';
COMMENT ON COLUMN memory.v_model_cost.day IS 'The day, in UTC, on which the work began.';
COMMENT ON COLUMN memory.v_model_cost.kind IS 'formation, consolidation, propagation, recheck or import.';
COMMENT ON COLUMN memory.v_model_cost.model IS 'The model that answered; null: no model answered; the word none: no model had to be called.';
COMMENT ON COLUMN memory.v_model_cost.runs IS 'Number of runs.';
COMMENT ON COLUMN memory.v_model_cost.failures IS 'Of these, runs that ended with an error: an unusable or a missing answer.';
COMMENT ON COLUMN memory.v_model_cost.input_tokens IS 'Sum of the tokens sent, as the provider counts them, including those for unusable answers.';
COMMENT ON COLUMN memory.v_model_cost.output_tokens IS 'Sum of the tokens received, counted in the same way.';
COMMENT ON COLUMN memory.v_model_cost.latency_seconds IS 'Mean seconds that the model took, over the runs in which it answered; null: it never answered.';
COMMENT ON COLUMN memory.v_model_cost.latency_seconds_max IS 'Most seconds that it took in one run; null: it never answered.';
COMMENT ON COLUMN memory.v_model_cost.cost IS 'Cost of the tokens, in units of the currency, to six decimals; null: the model has no price for that day.';
COMMENT ON COLUMN memory.v_model_cost.currency IS 'ISO 4217 code, for instance EUR; null: the model has no price for that day.';
