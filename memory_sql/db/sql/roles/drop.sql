-- Reverses make.sql: everything belongs to the role that runs this, the owner of the tables bypasses the walls again, and
-- the roles that can't log in are dropped unless something in another database depends on them. Reads the setting
-- `memory.roles`, as make.sql does.
DO $roles$
DECLARE
    names jsonb := current_setting('memory.roles')::jsonb -> 'names';
    item record;
    role record;
BEGIN
    FOR item IN
        SELECT c.oid::regclass AS name, CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END AS kind, c.relrowsecurity AS walled
        FROM pg_class c
        WHERE c.relnamespace = 'memory'::regnamespace AND c.relkind IN ('r', 'p', 'v')
    LOOP
        EXECUTE format('ALTER %s %s OWNER TO CURRENT_USER', item.kind, item.name);
        IF item.walled THEN
            EXECUTE format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY', item.name);
            EXECUTE format('DROP POLICY IF EXISTS readers ON %s', item.name);
        END IF;
    END LOOP;
    FOR item IN SELECT p.oid::regprocedure AS name FROM pg_proc p WHERE p.pronamespace = 'memory'::regnamespace LOOP
        EXECUTE format('ALTER FUNCTION %s OWNER TO CURRENT_USER', item.name);
    END LOOP;
    IF current_setting('is_superuser')::boolean THEN
        ALTER SCHEMA memory OWNER TO CURRENT_USER;
    END IF;
    FOR role IN SELECT r.rolname AS name, r.rolcanlogin FROM jsonb_each_text(names) n JOIN pg_roles r ON r.rolname = n.value LOOP
        EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA memory FROM %I', role.name);
        EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA memory FROM %I', role.name);
        EXECUTE format('REVOKE ALL ON SCHEMA memory FROM %I', role.name);
        CONTINUE WHEN role.rolcanlogin;
        BEGIN
            EXECUTE format('DROP ROLE %I', role.name);
        EXCEPTION WHEN dependent_objects_still_exist THEN
            NULL;  -- another database uses it as well; the caller reports the roles that remain
        END;
    END LOOP;
END
$roles$
