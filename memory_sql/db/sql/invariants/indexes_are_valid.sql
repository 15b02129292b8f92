-- Every index of the schema is complete and usable. An index that is being built at the moment doesn't count.
SELECT
    NULL AS agent_id,
    'index ' || c.relname AS key,
    format('valid %s, ready %s, live %s', i.indisvalid::int, i.indisready::int, i.indislive::int) AS detail
FROM pg_index i
JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relnamespace = 'memory'::regnamespace AND NOT (i.indisvalid AND i.indisready AND i.indislive)
  AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid)
