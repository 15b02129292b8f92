CREATE OR REPLACE FUNCTION memory.in_use(p_status text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT p_status IS NULL OR p_status = 'active' $$;
COMMENT ON FUNCTION memory.in_use IS 'Whether an observation with this status is in use; one value.';
CREATE OR REPLACE FUNCTION memory.is_found(p_status text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT p_status IS NULL OR p_status IN ('active', 'archived') $$;
COMMENT ON FUNCTION memory.is_found IS 'Whether a search finds an observation with this status; one value.';
CREATE OR REPLACE FUNCTION memory.is_sought(p_status text, p_superseded boolean) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT p_status IS NULL OR p_status IN ('active', 'archived') OR p_superseded AND p_status = 'superseded' $$;
COMMENT ON FUNCTION memory.is_sought IS
    'Whether a search, with or without superseded observations, finds an observation with this status; one value.';
CREATE OR REPLACE FUNCTION memory.is_aside(p_status text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT p_status IS NOT NULL AND p_status IN ('quarantined', 'given_up', 'withdrawn') $$;
COMMENT ON FUNCTION memory.is_aside IS 'Whether an observation with this status is hidden from users; one value.';
CREATE OR REPLACE FUNCTION memory.is_faded(p_status text, p_stage text, p_policy text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT coalesce(p_policy, 'durable') <> 'protected' AND (
        p_status IS NOT DISTINCT FROM 'archived' OR memory.in_use(p_status) AND coalesce(p_stage IN ('stale', 'archived'), false)
    )
$$;
COMMENT ON FUNCTION memory.is_faded IS
    'Whether an observation with this status, stage and policy is left out where what has faded is hidden; one value.';
CREATE OR REPLACE FUNCTION memory.supports(p_status text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT p_status IS NULL OR p_status IN ('active', 'archived', 'evicted') $$;
COMMENT ON FUNCTION memory.supports IS 'Whether an observation with this status supports what was derived from it; one value.';
