-- memory.states: what the states of an observation mean, as five functions of a state: in_use, is_found, is_sought, is_aside and
-- supports; the page is docs/corrections.md. Whatever depends on that asks them; elsewhere a state is named only where
-- it alone is meant. A null status is that of an observation without a row in memory.observation_states: active. The
-- planner puts them into the query that asks, so that they cost nothing and meet the conditions of partial indexes.
--
-- memory.in_use(status): it goes into texts, contexts, digests and prompts, and may be propagated, superseded, evicted.
CREATE OR REPLACE FUNCTION memory.in_use(p_status text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT p_status IS NULL OR p_status = 'active' $$;

COMMENT ON FUNCTION memory.in_use IS 'Whether an observation of this state is told; one value.';

-- memory.is_found(status): a search finds it.
CREATE OR REPLACE FUNCTION memory.is_found(p_status text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT p_status IS NULL OR p_status IN ('active', 'archived') $$;

COMMENT ON FUNCTION memory.is_found IS 'Whether a search finds an observation of this state; one value.';

-- memory.is_sought(status, superseded): the same, of a search that also finds what was superseded where it is asked to.
CREATE OR REPLACE FUNCTION memory.is_sought(p_status text, p_superseded boolean) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT p_status IS NULL OR p_status IN ('active', 'archived') OR p_superseded AND p_status = 'superseded' $$;

COMMENT ON FUNCTION memory.is_sought IS
    'Whether a search, with what was superseded or without, finds an observation of this state; one value.';

-- memory.is_aside(status): no user is shown it; nobody's word stands behind what was made of it. Nor is a user shown the messages
-- behind it, but for what is withdrawn: of its messages only those are hidden that are withdrawn themselves.
CREATE OR REPLACE FUNCTION memory.is_aside(p_status text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT p_status IS NOT NULL AND p_status IN ('quarantined', 'given_up', 'withdrawn') $$;

COMMENT ON FUNCTION memory.is_aside IS 'Whether an observation of this state is kept from users; one value.';

-- memory.supports(status): what was made of it alone stands on it. What a budget evicted or a leaver left behind still does.
CREATE OR REPLACE FUNCTION memory.supports(p_status text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT p_status IS NULL OR p_status IN ('active', 'archived', 'evicted') $$;

COMMENT ON FUNCTION memory.supports IS 'Whether what was made of an observation of this state stands on it; one value.';
