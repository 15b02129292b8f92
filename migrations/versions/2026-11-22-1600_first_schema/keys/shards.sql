CREATE OR REPLACE FUNCTION memory.shard(OUT shard text, OUT home uuid, OUT own uuid, OUT key_hash bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
    SELECT i.shard, i.shard_of, i.id, memory.keyed_hash('shards', '') FROM memory.installation i
$$;
COMMENT ON FUNCTION memory.shard IS 'Which shard this database is, of which home, and a hash of its key; one row.';
CREATE OR REPLACE FUNCTION memory.join_shards(p_shard text, p_number bigint, p_home uuid, p_key bytea) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, memory, pg_temp AS $$
DECLARE
    v_own memory.installation;
BEGIN
    LOCK TABLE memory.agents IN SHARE ROW EXCLUSIVE MODE;
    SELECT * INTO STRICT v_own FROM memory.installation FOR UPDATE;
    IF v_own.shard = p_shard AND v_own.shard_of = coalesce(p_home, v_own.id) THEN
        RETURN true;
    END IF;
    IF v_own.shard_of IS NOT NULL OR (p_home IS NOT NULL AND EXISTS (SELECT FROM memory.agents)) THEN
        RETURN false;
    END IF;
    IF p_home IS NOT NULL THEN
        PERFORM memory.renew_installation();  -- two copies of one empty database have the same id
        UPDATE memory.installation SET key = p_key;
        EXECUTE format(
            'ALTER TABLE memory.agents ALTER COLUMN agent_key SET START WITH %s RESTART', p_number * (1::bigint << 40) + 1
        );
    END IF;
    UPDATE memory.installation i SET shard = p_shard, shard_of = coalesce(p_home, i.id);
    RETURN true;
END
$$;
REVOKE EXECUTE ON FUNCTION memory.join_shards(text, bigint, uuid, bytea) FROM PUBLIC;
COMMENT ON FUNCTION memory.join_shards IS 'Makes this database a shard of that home, unless it has agents of its own.';
