-- Functions that run with their owner's rights have a fixed search_path, and those of them that take arguments, such as the
-- principal to read for, aren't executable by everybody.
SELECT NULL AS agent_id, 'function ' || p.oid::regprocedure AS key,
       'runs as its owner without a search_path of its own' AS detail
FROM pg_proc p
WHERE p.pronamespace = 'memory'::regnamespace AND p.prosecdef
  AND NOT EXISTS (
      SELECT FROM unnest(p.proconfig) c
      WHERE replace(c, '"', '') = 'search_path=pg_catalog, ' || replace('memory', '"', '') || ', pg_temp'
  )
UNION ALL
SELECT NULL, 'function ' || p.oid::regprocedure, 'runs as its owner for everybody'
FROM pg_proc p
WHERE p.pronamespace = 'memory'::regnamespace AND p.prosecdef AND p.pronargs > 0
  AND has_function_privilege('public', p.oid, 'EXECUTE')
