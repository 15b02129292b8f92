CREATE OR REPLACE FUNCTION memory.next_tier(
    p_tier text, p_value double precision, p_age double precision, p_protected boolean,
    p_demote double precision, p_promote double precision, p_days double precision
) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN p_protected OR p_value >= p_promote THEN 'hot'
        WHEN p_age >= p_days AND p_value <= p_demote THEN 'cold'
        ELSE p_tier
    END
$$;
COMMENT ON FUNCTION memory.next_tier IS 'The tier of an observation after this one, by its value and age; one value.';
