-- memory.number_setting(settings, name, else, most): a number that an agent has of its own, else the given one. What is
-- stored there may be anything: what isn't 0, or a number from a millionth to `most`, counts as not being there. It never raises.
CREATE OR REPLACE FUNCTION memory.number_setting(
    p_settings jsonb, p_name text, p_else double precision, p_most numeric DEFAULT 2147483647
) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN jsonb_typeof(p_settings -> p_name) = 'number' THEN
        CASE WHEN (p_settings -> p_name)::numeric = 0 OR (p_settings -> p_name)::numeric BETWEEN 0.000001 AND p_most
            THEN round((p_settings -> p_name)::numeric, 6)::double precision
            ELSE p_else
        END
        ELSE p_else
    END
$$;

COMMENT ON FUNCTION memory.number_setting IS
    'A number among the settings of an agent, or the given one where there is none that can be used.';
