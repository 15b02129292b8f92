CREATE OR REPLACE FUNCTION memory.shard(OUT shard text, OUT number bigint, OUT shards uuid, OUT key_hash bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
    SELECT i.shard, i.shard_number, i.shard_set, memory.keyed_hash('shards', '') FROM memory.installation i
$$;
COMMENT ON FUNCTION memory.shard IS 'Which shard this database is, of which shards, and a hash of its key; one row.';
CREATE OR REPLACE FUNCTION memory.join_shards(p_shard text, p_number bigint, p_shards uuid, p_key bytea) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, memory, pg_temp AS $$
DECLARE
    v_own memory.installation;
    v_first bigint := p_number * 10000000000 + 1;
    v_column record;
BEGIN
    LOCK TABLE memory.agents IN SHARE ROW EXCLUSIVE MODE;
    SELECT * INTO STRICT v_own FROM memory.installation FOR UPDATE;
    IF v_own.shard_set IS NOT NULL THEN
        RETURN (v_own.shard, v_own.shard_number, v_own.shard_set) = (p_shard, p_number, coalesce(p_shards, v_own.shard_set));
    END IF;
    IF p_number > 0 THEN
        IF EXISTS (SELECT FROM memory.agents) THEN
            RETURN false;
        END IF;
        PERFORM memory.renew_installation();  -- two copies of one empty database have the same id
        UPDATE memory.installation SET key = p_key;
        FOR v_column IN
            SELECT a.attrelid::regclass AS of_table, a.attname AS name
            FROM pg_attribute a
            JOIN pg_class c ON c.oid = a.attrelid
            WHERE c.relnamespace = 'memory'::regnamespace AND c.relkind IN ('r', 'p') AND a.attidentity <> ''
        LOOP
            EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET START WITH %s RESTART', v_column.of_table, v_column.name, v_first);
        END LOOP;
    END IF;
    UPDATE memory.installation
    SET shard = p_shard, shard_number = p_number, shard_set = coalesce(p_shards, gen_random_uuid());
    RETURN true;
END
$$;
REVOKE EXECUTE ON FUNCTION memory.join_shards(text, bigint, uuid, bytea) FROM PUBLIC;
COMMENT ON FUNCTION memory.join_shards IS 'Makes this database a shard of a home, unless it has agents of its own.';
