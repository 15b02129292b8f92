-- memory.scope_rank(kind, name): which scopes a context keeps if there are too many, lowest rank first: the user's main
-- scope, the conversation's, those of the agent itself, all others.
CREATE OR REPLACE FUNCTION memory.scope_rank(p_kind text, p_name text) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN p_kind = 'individual' AND p_name = '' THEN 0
        WHEN p_kind = 'conversation' THEN 1
        WHEN p_kind IN ('collective', 'agent', 'guideline') THEN 2
        ELSE 3
    END
$$;

COMMENT ON FUNCTION memory.scope_rank IS 'Rank of a scope where a context has too many: the lowest ranks are kept.';
