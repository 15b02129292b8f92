CREATE TABLE memory.installation (
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    key bytea NOT NULL DEFAULT sha256(
        uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
    ),
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    incarnation uuid,
    place text,
    ancestors uuid[] NOT NULL DEFAULT '{}',
    journal_read bigint NOT NULL DEFAULT 0,
    journal_tail bytea NOT NULL DEFAULT '',
    shard text,
    shard_number bigint,
    shard_set uuid,
    inner_pad bytea NOT NULL GENERATED ALWAYS AS (
        substr(bit_send(('x' || rpad(encode(key, 'hex'), 128, '0'))::bit(512) # ('x' || repeat('36', 64))::bit(512)), 5)
    ) STORED,
    outer_pad bytea NOT NULL GENERATED ALWAYS AS (
        substr(bit_send(('x' || rpad(encode(key, 'hex'), 128, '0'))::bit(512) # ('x' || repeat('5c', 64))::bit(512)), 5)
    ) STORED,
    CONSTRAINT installation_pkey PRIMARY KEY (id)
);
CREATE UNIQUE INDEX installation_true_key ON memory.installation ((true));
COMMENT ON TABLE memory.installation IS 'One row: the id of this database, and its key, which only the owner can read.';
COMMENT ON COLUMN memory.installation.id IS 'The id of this database; copies of the database have the same id.';
COMMENT ON COLUMN memory.installation.key IS '32 random bytes: the key of memory.keyed_hash.';
COMMENT ON COLUMN memory.installation.created_at IS 'When the schema was created.';
COMMENT ON COLUMN memory.installation.incarnation IS 'The id that this database has had since it was first opened where it is: a copy gets another.';
COMMENT ON COLUMN memory.installation.place IS 'Where that is: the server''s system identifier, the number and the name of the database.';
COMMENT ON COLUMN memory.installation.ancestors IS 'The incarnations of which it is a copy, or a restored backup.';
COMMENT ON COLUMN memory.installation.journal_read IS 'Up to which byte this database knows all that the journal of forgetting says.';
COMMENT ON COLUMN memory.installation.journal_tail IS 'SHA-256 of what stands before it: of another file, nothing is known.';
COMMENT ON COLUMN memory.installation.shard IS 'The name of the shard that this database is; null: it is none.';
COMMENT ON COLUMN memory.installation.shard_number IS 'Its number among the shards; 0: the home, which keeps the map.';
COMMENT ON COLUMN memory.installation.shard_set IS 'An id that all shards of one home have, and copies of them too.';
COMMENT ON COLUMN memory.installation.inner_pad IS 'The key, filled up to 64 bytes and XORed with 0x36.';
COMMENT ON COLUMN memory.installation.outer_pad IS 'The key, filled up to 64 bytes and XORed with 0x5c.';
ALTER TABLE memory.installation ENABLE ROW LEVEL SECURITY;
INSERT INTO memory.installation DEFAULT VALUES;
CREATE OR REPLACE FUNCTION memory.installation_id() RETURNS uuid
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
    SELECT id FROM memory.installation
$$;
COMMENT ON FUNCTION memory.installation_id IS 'The id of this database; copies of the database have the same id.';
CREATE OR REPLACE FUNCTION memory.incarnation() RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
DECLARE
    v_server text := '';
    v_own memory.installation;
    v_place text;
BEGIN
    BEGIN
        v_server := (SELECT c.system_identifier::text FROM pg_control_system() c);
    EXCEPTION WHEN insufficient_privilege THEN  -- some hosting providers: then the database's number and name have to do
        NULL;
    END;
    v_place := format('%s/%s/%s', v_server, (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()), current_database());
    SELECT * INTO STRICT v_own FROM memory.installation;
    IF v_own.place IS DISTINCT FROM v_place AND NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off' THEN
        UPDATE memory.installation i
        SET incarnation = gen_random_uuid(), place = v_place, ancestors = array_remove(i.ancestors || i.incarnation, NULL)
        WHERE i.place IS DISTINCT FROM v_place;
        SELECT * INTO STRICT v_own FROM memory.installation;
    END IF;
    RETURN v_own.incarnation;
END
$$;
COMMENT ON FUNCTION memory.incarnation IS 'The id of this incarnation of the database; a copy has another.';
CREATE OR REPLACE FUNCTION memory.ancestors() RETURNS uuid[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
    SELECT i.ancestors FROM memory.installation i
$$;
COMMENT ON FUNCTION memory.ancestors IS 'The incarnations of which this database is a copy.';
CREATE OR REPLACE FUNCTION memory.journal_read(OUT upto bigint, OUT tail bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
    SELECT i.journal_read, i.journal_tail FROM memory.installation i
$$;
COMMENT ON FUNCTION memory.journal_read IS 'How much of the journal of forgetting this database knows; one row.';
CREATE OR REPLACE FUNCTION memory.note_journal_read(p_position bigint, p_tail bytea) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
    UPDATE memory.installation SET journal_read = p_position, journal_tail = p_tail
$$;
REVOKE EXECUTE ON FUNCTION memory.note_journal_read(bigint, bytea) FROM PUBLIC;
COMMENT ON FUNCTION memory.note_journal_read IS 'Notes how much of the journal of forgetting this database knows.';
CREATE OR REPLACE FUNCTION memory.renew_installation() RETURNS uuid
LANGUAGE sql VOLATILE SET search_path = pg_catalog, memory, pg_temp AS $$
    UPDATE memory.installation SET id = gen_random_uuid(), incarnation = NULL, place = NULL, ancestors = '{}' RETURNING id
$$;
REVOKE EXECUTE ON FUNCTION memory.renew_installation() FROM PUBLIC;
COMMENT ON FUNCTION memory.renew_installation IS 'Gives a copy of a database an id of its own; one value.';
CREATE OR REPLACE FUNCTION memory.keyed_hash(p_subject text, p_value bytea) RETURNS bytea
LANGUAGE plpgsql STABLE STRICT SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
DECLARE
    v_hash bytea;
BEGIN
    SELECT sha256(i.outer_pad || sha256(i.inner_pad || convert_to(p_subject, 'UTF8') || E'\\x00' || p_value))
    INTO STRICT v_hash FROM memory.installation i;
    RETURN v_hash;
END
$$;
REVOKE EXECUTE ON FUNCTION memory.keyed_hash(text, bytea) FROM PUBLIC;
COMMENT ON FUNCTION memory.keyed_hash IS
    'HMAC-SHA256 of a value under the key of this database, which only the owner can read.';
CREATE OR REPLACE FUNCTION memory.keyed_hashes(p_subject text, p_values bytea[])
RETURNS TABLE (place bigint, hash bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
    SELECT v.place, sha256(i.outer_pad || sha256(i.inner_pad || convert_to(p_subject, 'UTF8') || E'\\x00' || v.value))
    FROM memory.installation i
    CROSS JOIN unnest(p_values) WITH ORDINALITY AS v (value, place)
$$;
REVOKE EXECUTE ON FUNCTION memory.keyed_hashes(text, bytea[]) FROM PUBLIC;
COMMENT ON FUNCTION memory.keyed_hashes IS 'memory.keyed_hash of each value, with its place from 1.';
CREATE OR REPLACE FUNCTION memory.user_hash(p_agent bigint, p_user text) RETURNS bytea
LANGUAGE sql STABLE AS $$
    SELECT memory.keyed_hash('user', int8send(p_agent) || convert_to(p_user, 'UTF8'))
$$;
COMMENT ON FUNCTION memory.user_hash IS 'The hash of a user''s id, which may be kept after the user was forgotten.';
CREATE OR REPLACE FUNCTION memory.content_hash(p_scope bigint, p_digest bytea) RETURNS bytea
LANGUAGE sql STABLE AS $$
    SELECT memory.keyed_hash('content', int8send(p_scope) || p_digest)
$$;
COMMENT ON FUNCTION memory.content_hash IS 'The hash by which a scope recognizes a text, from the digest of its normal form.';
CREATE OR REPLACE FUNCTION memory.content_hashes(p_scopes bigint[], p_digests bytea[])
RETURNS TABLE (place bigint, hash bytea)
LANGUAGE sql STABLE AS $$
    SELECT h.place, h.hash
    FROM memory.keyed_hashes('content', ARRAY(
        SELECT int8send(k.scope_id) || k.digest
        FROM unnest(p_scopes, p_digests) WITH ORDINALITY AS k (scope_id, digest, place)
        ORDER BY k.place
    )) h
$$;
COMMENT ON FUNCTION memory.content_hashes IS 'memory.content_hash of each pair, with its place from 1.';
