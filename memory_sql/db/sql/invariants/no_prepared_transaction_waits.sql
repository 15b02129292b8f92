-- No prepared transaction is older than ten minutes: an abandoned one holds its locks, and keeps deleted rows on disk.
SELECT
    NULL AS agent_id,
    'prepared transaction ' || p.gid AS key,
    format('prepared %s s ago', round(extract(epoch FROM clock_timestamp() - p.prepared))) AS detail
FROM pg_prepared_xacts p
WHERE p.database = current_database() AND p.prepared < clock_timestamp() - interval '10 minutes'
