-- Row-level security is enabled on every table that holds memory, and forced on the owner either on all of them or on none.
-- Every table has a policy for the library's own work, nobody has added one that applies to everybody, and views are read
-- with the caller's rights.
WITH tables AS (
    SELECT c.oid, c.relname, c.relrowsecurity, c.relforcerowsecurity,
           bool_or(c.relforcerowsecurity) OVER () AS somewhere_forced
    FROM pg_class c
    WHERE c.relnamespace = 'memory'::regnamespace AND c.relkind IN ('r', 'p') AND c.relname <> 'alembic_version'
), walled AS (  -- memory.installation belongs to the owner alone and has no policies, so nobody else gets in
    SELECT * FROM tables WHERE relname <> 'installation'
)
SELECT NULL AS agent_id, 'table ' || t.relname AS key, 'row-level security is off' AS detail
FROM tables t
WHERE NOT t.relrowsecurity
UNION ALL
SELECT NULL, 'table ' || t.relname, 'row-level security is forced elsewhere, not here: run `memory-sql db roles` again'
FROM walled t
WHERE t.somewhere_forced AND NOT t.relforcerowsecurity
UNION ALL
SELECT NULL, 'table ' || t.relname, 'no policy for the library''s own work'
FROM walled t
WHERE NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = t.oid AND p.polname = 'service' AND p.polcmd = '*')
UNION ALL
SELECT NULL, format('policy %s of %s', p.polname, t.relname), 'is for everybody, and not one of ours'
FROM tables t
JOIN pg_policy p ON p.polrelid = t.oid
WHERE p.polpermissive AND p.polroles @> '{0}' AND p.polname NOT IN ('service', 'users')
UNION ALL
SELECT NULL, 'view ' || c.relname, 'is read with the rights of its owner'
FROM pg_class c
WHERE c.relnamespace = 'memory'::regnamespace AND c.relkind = 'v'
  AND NOT coalesce(c.reloptions @> '{security_invoker=true}', false)
