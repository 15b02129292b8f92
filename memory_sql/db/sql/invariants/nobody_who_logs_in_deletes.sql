-- Where row-level security is forced, no role that can log in deletes or truncates memory, or changes what stands in the way,
-- but superusers and whoever is the owner.
SELECT NULL AS agent_id, format('role %s on %s', r.rolname, c.relname) AS key, 'may ' || lower(k.privilege) AS detail
FROM pg_class c
CROSS JOIN pg_roles r
CROSS JOIN (VALUES ('DELETE'), ('TRUNCATE'), ('TRIGGER')) k (privilege)
WHERE c.relnamespace = 'memory'::regnamespace AND c.relkind IN ('r', 'p') AND c.relforcerowsecurity
  AND r.rolcanlogin AND NOT r.rolsuper AND NOT pg_has_role(r.oid, c.relowner, 'USAGE')
  AND has_table_privilege(r.oid, c.oid, k.privilege)
