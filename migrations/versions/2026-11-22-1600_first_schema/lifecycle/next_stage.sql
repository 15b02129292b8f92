CREATE OR REPLACE FUNCTION memory.next_stage(
    p_stage text, p_heat double precision, p_decay double precision, p_verification text, p_category text, p_policy text,
    p_promote double precision, p_stale double precision, p_archive double precision, p_protected text[]
) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN p_stage = 'archived' THEN p_stage
        WHEN p_verification = 'disputed' THEN 'stale'
        WHEN p_decay >= p_archive AND p_policy <> 'protected' AND NOT coalesce(p_category = ANY (p_protected), false) THEN 'archived'
        WHEN p_decay >= least(p_stale, p_archive) THEN 'stale'
        WHEN p_heat >= p_promote THEN CASE WHEN p_verification = 'confirmed' THEN 'active' ELSE 'validated' END
        ELSE p_stage
    END
$$;
COMMENT ON FUNCTION memory.next_stage IS 'The stage of an observation after this one, by its scores; one value.';
