-- memory.states: what the states of an observation mean, as five functions of a status: in_use, is_found, is_sought,
-- is_aside and supports; docs/corrections.md describes them. Whatever depends on the meaning of a state calls these
-- functions; other code names a status only if it means exactly that one. A null status means active: the observation has
-- no row in memory.observation_states. The planner inlines the functions, so they cost nothing and match the conditions of
-- partial indexes.
--
-- memory.is_faded asks more than the status.
--
-- memory.in_use(status): the observation goes into texts, contexts, digests and prompts, and may be propagated, superseded
-- or evicted.
CREATE OR REPLACE FUNCTION memory.in_use(p_status text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT p_status IS NULL OR p_status = 'active' $$;

COMMENT ON FUNCTION memory.in_use IS 'Whether an observation with this status is in use; one value.';

-- memory.is_found(status): a search finds the observation.
CREATE OR REPLACE FUNCTION memory.is_found(p_status text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT p_status IS NULL OR p_status IN ('active', 'archived') $$;

COMMENT ON FUNCTION memory.is_found IS 'Whether a search finds an observation with this status; one value.';

-- memory.is_sought(status, superseded): the same for a search that, if asked to, also finds superseded observations.
CREATE OR REPLACE FUNCTION memory.is_sought(p_status text, p_superseded boolean) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT p_status IS NULL OR p_status IN ('active', 'archived') OR p_superseded AND p_status = 'superseded' $$;

COMMENT ON FUNCTION memory.is_sought IS
    'Whether a search, with or without superseded observations, finds an observation with this status; one value.';

-- memory.is_aside(status): the observation is shown to no user, and the people behind it don't count as support for what was
-- derived from it. Its messages aren't shown to users either. A withdrawn observation is the exception: only those of its
-- messages are hidden that are withdrawn themselves.
CREATE OR REPLACE FUNCTION memory.is_aside(p_status text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT p_status IS NOT NULL AND p_status IN ('quarantined', 'given_up', 'withdrawn') $$;

COMMENT ON FUNCTION memory.is_aside IS 'Whether an observation with this status is hidden from users; one value.';

-- memory.is_faded(status, stage, policy): a search that leaves out what is stale or archived doesn't find the observation.
CREATE OR REPLACE FUNCTION memory.is_faded(p_status text, p_stage text, p_policy text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT coalesce(p_policy, 'durable') <> 'protected' AND (
        p_status IS NOT DISTINCT FROM 'archived' OR memory.in_use(p_status) AND coalesce(p_stage IN ('stale', 'archived'), false)
    )
$$;

COMMENT ON FUNCTION memory.is_faded IS
    'Whether an observation with this status, stage and policy is left out where what has faded is hidden; one value.';

-- memory.supports(status): the observation supports what was derived from it alone. An evicted or archived one still does.
CREATE OR REPLACE FUNCTION memory.supports(p_status text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT p_status IS NULL OR p_status IN ('active', 'archived', 'evicted') $$;

COMMENT ON FUNCTION memory.supports IS 'Whether an observation with this status supports what was derived from it; one value.';
