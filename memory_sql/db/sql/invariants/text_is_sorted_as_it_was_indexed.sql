-- The database's collation has the version with which its indexes were built. Otherwise, after an upgrade of the operating
-- system, a key might not be found and be stored twice. (REINDEX DATABASE, then ALTER DATABASE … REFRESH COLLATION VERSION.)
SELECT
    NULL AS agent_id,
    'database ' || d.datname AS key,
    format('version %s when indexed, %s now', d.datcollversion, pg_database_collation_actual_version(d.oid)) AS detail
FROM pg_database d
WHERE d.datname = current_database() AND d.datcollversion <> pg_database_collation_actual_version(d.oid)
