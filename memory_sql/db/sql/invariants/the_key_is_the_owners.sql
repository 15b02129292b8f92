-- No role but the owner may read the key of this database, and only roles that write observations and the owners of the
-- schema's functions may hash with it: others could confirm guesses.
SELECT NULL AS agent_id, 'role ' || coalesce(r.rolname, 'public') AS key, 'may read the key of this database' AS detail
FROM pg_class c
CROSS JOIN LATERAL (
    SELECT a.grantee FROM aclexplode(c.relacl) a
    UNION
    SELECT a.grantee FROM pg_attribute t CROSS JOIN LATERAL aclexplode(t.attacl) a WHERE t.attrelid = c.oid
) given
LEFT JOIN pg_roles r ON r.oid = given.grantee
WHERE c.oid = 'memory.installation'::regclass AND given.grantee <> c.relowner
UNION ALL
SELECT NULL, 'role ' || r.rolname, 'may hash with the key of this database, and writes no observations'
FROM pg_proc p
CROSS JOIN LATERAL aclexplode(p.proacl) a
JOIN pg_roles r ON r.oid = a.grantee
WHERE p.pronamespace = 'memory'::regnamespace AND p.proname IN ('keyed_hash', 'keyed_hashes')
  AND a.grantee <> p.proowner
  AND NOT has_table_privilege(r.oid, 'memory.observations', 'INSERT')
  AND NOT EXISTS (
      SELECT FROM pg_proc d WHERE d.pronamespace = 'memory'::regnamespace AND d.prosecdef AND d.proowner = r.oid
  )
