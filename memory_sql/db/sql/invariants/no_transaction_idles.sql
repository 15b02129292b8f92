-- No transaction of the library stays open and idle for long: none may be held open while a model works.
SELECT
    NULL AS agent_id,
    'process ' || p.pid AS key,
    format('idle in its transaction for %s s', round(extract(epoch FROM clock_timestamp() - p.state_change))) AS detail
FROM pg_stat_activity p
WHERE p.datname = current_database() AND p.application_name = 'memory_sql' AND p.state LIKE 'idle in transaction%'
  AND p.state_change < clock_timestamp() - :idle_max
