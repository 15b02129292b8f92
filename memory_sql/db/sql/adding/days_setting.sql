-- memory.days_setting(settings, defaults, name): the days that an agent has set under this name, else the defaults' of that name; null
-- there is for ever.
CREATE OR REPLACE FUNCTION memory.days_setting(p_settings jsonb, p_defaults jsonb, p_name text) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_settings -> p_name = 'null' THEN NULL
        ELSE memory.number_setting(p_settings, p_name, (p_defaults ->> p_name)::double precision, 36500) END
$$;

COMMENT ON FUNCTION memory.days_setting IS 'Days among the settings of an agent, or the given ones; null: for ever.';
