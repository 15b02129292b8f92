-- The triggers that keep observations and texts unchanged exist, and no trigger of the schema is disabled (foreign keys are
-- triggers too).
SELECT NULL AS agent_id, format('trigger %s of %s', k.name, k.relname) AS key, '0 triggers of that name' AS detail
FROM (VALUES
    ('observations', 'observations_never_change'),
    ('observations', 'observations_guard_privacy'),
    ('consolidations', 'consolidations_never_change')
) k (relname, name)
WHERE NOT EXISTS (
    SELECT FROM pg_trigger t WHERE t.tgrelid = to_regclass('memory.' || k.relname) AND t.tgname = k.name
)
UNION ALL
SELECT NULL, format('trigger %s of %s', t.tgname, c.relname), 'switched off'
FROM pg_trigger t
JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = 'memory'::regnamespace AND t.tgenabled NOT IN ('O', 'A')
