-- Every constraint of the schema is validated: it holds for all rows, including those that existed before it.
SELECT NULL AS agent_id, format('constraint %s of %s', o.conname, c.relname) AS key, '0 rows known to keep it' AS detail
FROM pg_constraint o
JOIN pg_class c ON c.oid = o.conrelid
WHERE o.connamespace = 'memory'::regnamespace AND NOT o.convalidated
