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
COMMENT ON COLUMN memory.v_retrieval.agent_id IS 'The host''s id of the agent.';
COMMENT ON COLUMN memory.v_retrieval.day IS 'The day in UTC on which memory was asked.';
COMMENT ON COLUMN memory.v_retrieval.queries IS 'Searches, contexts with XML and a message, and digests, in a context or alone, that searched for words.';
COMMENT ON COLUMN memory.v_retrieval.fired_share IS 'Of the contexts in which what was found decided, the share in which it was shown, 0 to 1; null: it never decided.';
COMMENT ON COLUMN memory.v_retrieval.without_hit_share IS 'Of the queries that searched, the share in which nothing was found, 0 to 1; null: none searched.';
COMMENT ON COLUMN memory.v_retrieval.mean_ms IS 'Milliseconds that searching took, in the mean; null: nothing was searched.';
COMMENT ON COLUMN memory.v_retrieval.slowest_ms IS 'Milliseconds that it took at worst; null: nothing was searched.';
