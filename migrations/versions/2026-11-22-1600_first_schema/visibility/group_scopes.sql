CREATE OR REPLACE FUNCTION memory.group_scopes(p_agent bigint, p_scope_ids bigint[]) RETURNS TABLE (scope_id bigint, main_scope_id bigint)
LANGUAGE sql STABLE AS $$
    SELECT s.scope_id, g.scope_id
    FROM (SELECT DISTINCT k FROM unnest(p_scope_ids) k) k
    CROSS JOIN LATERAL (
        SELECT s.scope_id, s.owner FROM memory.scopes s
        WHERE s.agent_key = p_agent AND s.scope_id = k.k AND s.kind = 'group' OFFSET 0
    ) s
    CROSS JOIN LATERAL (
        SELECT g.scope_id FROM memory.scopes g WHERE g.agent_key = p_agent AND g.owner = s.owner AND g.name = '' OFFSET 0
    ) g
$$;
COMMENT ON FUNCTION memory.group_scopes IS 'The scopes of groups, each with the main one of its group; one row per scope.';
