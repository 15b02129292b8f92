-- memory.v_retrieval: how often memory was queried, and whether it found anything. One row per agent and day (UTC) with
-- queries. Queries are counted in the process and written once a minute, after a hundred of them and when a Memory is
-- closed; a crash loses counts not yet written. Contexts without a message or with retrieve=False don't count, nor do
-- digests that searched for no words. memory.retrievals has the numbers by surface and reason.
CREATE OR REPLACE VIEW memory.v_retrieval WITH (security_invoker = true) AS
SELECT
    a.agent_id,
    r.day,
    sum(r.queries)::bigint AS queries,
    round(sum(r.queries) FILTER (WHERE r.reason NOT IN ('asked', 'too little', 'none'))
        / nullif(sum(r.queries) FILTER (WHERE r.reason <> 'asked'), 0), 4) AS fired_share,
    round(sum(r.without_hit) FILTER (WHERE r.reason <> 'none')
        / nullif(sum(r.queries) FILTER (WHERE r.reason <> 'none'), 0), 4) AS without_hit_share,
    round((1000 * sum(r.seconds) FILTER (WHERE r.reason <> 'none')
        / nullif(sum(r.queries) FILTER (WHERE r.reason <> 'none'), 0)::double precision)::numeric, 3)::double precision AS mean_ms,
    round((1000 * max(r.slowest_seconds) FILTER (WHERE r.reason <> 'none'))::numeric, 3)::double precision AS slowest_ms
FROM memory.retrievals r
JOIN memory.agents a ON a.agent_key = r.agent_key
GROUP BY 1, 2;

COMMENT ON VIEW memory.v_retrieval IS
    'One row per agent and day (UTC): queries, share with results shown, share without results, mean and slowest milliseconds.';

COMMENT ON COLUMN memory.v_retrieval.agent_id IS 'The host''s id for the agent.';
COMMENT ON COLUMN memory.v_retrieval.day IS 'The day, in UTC, of the queries.';
COMMENT ON COLUMN memory.v_retrieval.queries IS 'Number of queries: searches, contexts with XML and a message, and digests (in a context or alone) that searched for words.';
COMMENT ON COLUMN memory.v_retrieval.fired_share IS 'Of the contexts that decided by what was found whether to show it, the share that showed it, 0 to 1; null: none.';
COMMENT ON COLUMN memory.v_retrieval.without_hit_share IS 'Of the queries that searched, the share that found nothing, 0 to 1; null: none searched.';
COMMENT ON COLUMN memory.v_retrieval.mean_ms IS 'Mean search time in milliseconds; null: none searched.';
COMMENT ON COLUMN memory.v_retrieval.slowest_ms IS 'Longest search time in milliseconds; null: none searched.';
