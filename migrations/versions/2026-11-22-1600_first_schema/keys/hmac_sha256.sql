CREATE OR REPLACE FUNCTION memory.hmac_sha256(p_key bytea, p_message bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT sha256(
        substr(bit_send(k.bits # ('x' || repeat('5c', 64))::bit(512)), 5)
        || sha256(substr(bit_send(k.bits # ('x' || repeat('36', 64))::bit(512)), 5) || p_message)
    )
    FROM (
        SELECT (
            'x' || rpad(encode(CASE WHEN length(p_key) > 64 THEN sha256(p_key) ELSE p_key END, 'hex'), 128, '0')
        )::bit(512) AS bits
    ) k
$$;
COMMENT ON FUNCTION memory.hmac_sha256 IS 'HMAC with SHA-256 of a message under a key.';
