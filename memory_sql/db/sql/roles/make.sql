-- Creates or updates the roles of a database with walls. It can be run again at any time, and must be run after every
-- upgrade. Reads the setting `memory.roles`: {"names": {"owner", "app", "eraser", "reader", "analyst", "content"}, "erase":
-- the columns "table.column" that may hold what somebody said}. Runs as a superuser, or as a role that may create roles and
-- owns the schema; such a role becomes a member of owner, eraser and reader, which it needs for later upgrades.
--
-- owner owns tables and views, and the walls apply to it too. The application runs as app, which reads and writes rows and
-- deletes none. eraser may delete, and owns the functions with which forgetting deletes. reader may read all rows, and owns
-- the functions that read for a principal given as an argument. analyst reads all rows and views except what somebody
-- said; content reads everything. memory.installation, with the key of this database, belongs to owner alone, as do the
-- functions that read it.
DO $roles$
DECLARE
    names jsonb := current_setting('memory.roles')::jsonb -> 'names';
    erase text[] := ARRAY(SELECT jsonb_array_elements_text(current_setting('memory.roles')::jsonb -> 'erase'));
    owner name := names ->> 'owner';
    app name := names ->> 'app';
    eraser name := names ->> 'eraser';
    reader name := names ->> 'reader';
    analyst name := names ->> 'analyst';
    content name := names ->> 'content';
    super boolean := current_setting('is_superuser')::boolean;
    item record;
BEGIN
    FOR item IN SELECT value FROM jsonb_each_text(names) LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = item.value) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN NOINHERIT', item.value);
        END IF;
    END LOOP;
    IF to_regnamespace('memory') IS NULL THEN
        RETURN;  -- a restore needs the roles first, and then restores what they own
    END IF;

    IF super THEN
        EXECUTE format('ALTER SCHEMA memory OWNER TO %I', owner);
    ELSE
        EXECUTE format('GRANT %I, %I, %I TO CURRENT_USER', owner, reader, eraser);
    END IF;
    EXECUTE format('GRANT USAGE, CREATE ON SCHEMA memory TO %I, %I, %I', owner, reader, eraser);
    EXECUTE format('GRANT USAGE ON SCHEMA memory TO %I, %I, %I', app, analyst, content);

    FOR item IN
        SELECT c.oid::regclass AS name, CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END AS kind,
               c.relkind <> 'v' AND c.relname <> 'alembic_version' AS walled
        FROM pg_class c
        WHERE c.relnamespace = 'memory'::regnamespace AND c.relkind IN ('r', 'p', 'v') AND c.relname <> 'installation'
    LOOP
        EXECUTE format('ALTER %s %s OWNER TO %I', item.kind, item.name, owner);
        EXECUTE format('REVOKE ALL ON %s FROM %I, %I, %I, %I, %I', item.name, app, eraser, reader, analyst, content);
        EXECUTE format('GRANT SELECT ON %s TO %I, %I, %I, %I', item.name, app, eraser, reader, content);
        IF item.kind = 'VIEW' THEN
            EXECUTE format('GRANT SELECT ON %s TO %I', item.name, analyst);
        END IF;
        IF item.walled THEN
            EXECUTE format('GRANT INSERT ON %s TO %I', item.name, app);
            EXECUTE format('GRANT UPDATE, DELETE ON %s TO %I', item.name, eraser);
            EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', item.name);
            EXECUTE format('DROP POLICY IF EXISTS readers ON %s', item.name);
            EXECUTE format(
                'CREATE POLICY readers ON %s FOR SELECT TO %I, %I, %I USING (true)', item.name, reader, analyst, content
            );
        END IF;
    END LOOP;

    EXECUTE format('GRANT INSERT ON memory.events, memory.departures, memory.observation_states, memory.forgotten_refs, memory.forgotten_ids TO %I', eraser);
    EXECUTE format('ALTER TABLE memory.installation OWNER TO %I', owner);
    EXECUTE format('REVOKE ALL ON memory.installation FROM %I, %I, %I, %I, %I', app, eraser, reader, analyst, content);

    FOR item IN  -- column by column: a role that may update a whole table may also lock it against everybody (LOCK TABLE)
        SELECT a.attrelid::regclass AS name, string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) AS columns
        FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relnamespace = 'memory'::regnamespace AND c.relkind IN ('r', 'p')
          AND c.relname NOT IN ('alembic_version', 'installation')
        GROUP BY a.attrelid
    LOOP
        EXECUTE format('GRANT UPDATE (%s) ON %s TO %I', item.columns, item.name, app);
    END LOOP;

    EXECUTE format('REVOKE INSERT, UPDATE ON memory.moved_agents FROM %I', app);  -- who is in it may be deleted here

    FOR item IN  -- a view is read with the caller's rights, so the analyst can't read one with such a column
        SELECT a.attrelid::regclass AS name, string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) AS columns
        FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relnamespace = 'memory'::regnamespace AND c.relkind IN ('r', 'p')
          AND c.relname <> 'installation' AND c.relname || '.' || a.attname <> ALL (erase)
        GROUP BY a.attrelid
    LOOP
        EXECUTE format('GRANT SELECT (%s) ON %s TO %I', item.columns, item.name, analyst);
    END LOOP;

    FOR item IN
        SELECT p.oid::regprocedure AS name,
               CASE WHEN NOT p.prosecdef OR p.proname IN ('installation_id', 'incarnation', 'ancestors', 'journal_read', 'note_journal_read', 'shard', 'keyed_hash', 'keyed_hashes') THEN owner WHEN p.provolatile = 'v' THEN eraser ELSE reader END AS role
        FROM pg_proc p
        WHERE p.pronamespace = 'memory'::regnamespace
    LOOP
        EXECUTE format('ALTER FUNCTION %s OWNER TO %I', item.name, item.role);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', item.name, app);
    END LOOP;
    EXECUTE format(
        'GRANT EXECUTE ON FUNCTION memory.keyed_hash(text, bytea), memory.keyed_hashes(text, bytea[]) TO %I, %I', reader, eraser
    );
    EXECUTE format('REVOKE CREATE ON SCHEMA memory FROM %I, %I', reader, eraser);
END
$roles$
