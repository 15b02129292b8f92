CREATE OR REPLACE VIEW memory.v_retrieval WITH (security_invoker = true) AS
SELECT
    a.agent_id,
    r.day,
    sum(r.queries)::bigint AS queries,
    sum(r.queries) FILTER (WHERE r.reason NOT IN ('asked', 'too little', 'none'))
        / nullif(sum(r.queries) FILTER (WHERE r.reason <> 'asked'), 0) AS fired_share,
    sum(r.without_hit) FILTER (WHERE r.reason <> 'none')
        / nullif(sum(r.queries) FILTER (WHERE r.reason <> 'none'), 0) AS without_hit_share,
    1000 * sum(r.seconds) FILTER (WHERE r.reason <> 'none')
        / nullif(sum(r.queries) FILTER (WHERE r.reason <> 'none'), 0)::double precision AS mean_ms,
    1000 * max(r.slowest_seconds) FILTER (WHERE r.reason <> 'none') AS slowest_ms
FROM memory.retrievals r
JOIN memory.agents a ON a.agent_key = r.agent_key
GROUP BY 1, 2;
COMMENT ON VIEW memory.v_retrieval IS
    'One row per agent and day (UTC): queries, how often something was shown, nothing found, mean and slowest milliseconds.';
