-- memory.v_retrieval: how often memory was asked, and whether it answered. One row per agent and day (UTC) on which somebody
-- asked; what was counted last may be missing for a minute. queries: contexts whose XML was asked for with a message,
-- searches, and digests, in a context or alone, that looked for words. fired_share: of the contexts in which what was
-- found decided, the share in which it was shown; null where it never decided. without_hit_share: of the queries that searched,
-- the share in which nothing was found. mean_ms, slowest_ms: milliseconds that searching took. The last three are null
-- where nothing was searched.
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
