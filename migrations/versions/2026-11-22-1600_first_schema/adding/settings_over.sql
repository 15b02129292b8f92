CREATE OR REPLACE FUNCTION memory.settings_over(p_defaults jsonb, p_own jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF p_own = '{}' THEN  -- as most agents have it
        RETURN p_defaults;
    END IF;
    RETURN p_defaults || coalesce((
        SELECT jsonb_object_agg(o.key, o.value)
        FROM jsonb_each(p_own) o
        WHERE jsonb_typeof(o.value) = jsonb_typeof(p_defaults -> o.key)
          AND (jsonb_typeof(o.value) <> 'number' OR memory.number_setting(p_own, o.key, NULL) IS NOT NULL)
    ), '{}');
END
$$;
COMMENT ON FUNCTION memory.settings_over IS
    'Settings by name: those of an agent where it has any that can be used, else the defaults.';
