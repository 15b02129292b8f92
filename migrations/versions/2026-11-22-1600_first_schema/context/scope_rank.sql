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
