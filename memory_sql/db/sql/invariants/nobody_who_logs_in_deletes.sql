-- Where row-level security is forced, no role that can log in may delete or truncate memory, create triggers on it, or lock
-- a table against everybody (as a role with UPDATE on the whole table can), except superusers and roles that have the
-- owner's rights.
SELECT NULL AS agent_id, format('role %s on %s', r.rolname, c.relname) AS key, k.may AS detail
FROM pg_class c
CROSS JOIN pg_roles r
CROSS JOIN (
    VALUES ('DELETE', 'may delete'), ('TRUNCATE', 'may truncate'), ('TRIGGER', 'may trigger'),
           ('UPDATE', 'may lock the table')
) k (privilege, may)
WHERE c.relnamespace = 'memory'::regnamespace AND c.relkind IN ('r', 'p') AND c.relforcerowsecurity
  AND r.rolcanlogin AND NOT r.rolsuper AND NOT pg_has_role(r.oid, c.relowner, 'USAGE')
  AND has_table_privilege(r.oid, c.oid, k.privilege)
