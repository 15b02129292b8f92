CREATE OR REPLACE FUNCTION memory.retention_start(p_settings jsonb, p_days double precision, p_at timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(
        p_at - make_interval(
            secs => 86400 * CASE
                WHEN p_settings -> 'message_retention_days' = 'null' THEN NULL
                ELSE memory.number_setting(p_settings, 'message_retention_days', p_days, 36500)
            END
        ),
        '-infinity'
    )
$$;
COMMENT ON FUNCTION memory.retention_start IS
    'Since when the messages of an agent keep their texts; -infinity: for ever.';
