CREATE OR REPLACE FUNCTION memory.former_members(p_agent bigint, p_scope_ids bigint[], p_leaving text[])
RETURNS TABLE (scope_id bigint, user_id text, kept_until timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT g.scope_id, unnest(f.ids), f.kept_until
    FROM memory.group_scopes(p_agent, p_scope_ids) g
    CROSS JOIN LATERAL (
        SELECT array_agg(DISTINCT i.user_id) AS ids, max(m.left_at) FILTER (WHERE m.kept) AS kept_until
        FROM (
            SELECT memory.person(p_agent, m.user_id) AS person FROM memory.members m
            WHERE m.agent_key = p_agent AND m.scope_id = g.main_scope_id AND m.left_at IS NOT NULL
            UNION SELECT memory.person(p_agent, u) FROM unnest(p_leaving) u
        ) p
        CROSS JOIN LATERAL memory.user_ids(p_agent, p.person) i
        LEFT JOIN memory.members m ON m.agent_key = p_agent AND m.scope_id = g.main_scope_id AND m.user_id = i.user_id
        GROUP BY p.person
        HAVING NOT bool_or(m.user_id IS NOT NULL AND m.left_at IS NULL AND m.user_id <> ALL (p_leaving))
    ) f
$$;
COMMENT ON FUNCTION memory.former_members IS 'Who has left the groups of some scopes; one row per scope and id.';
CREATE OR REPLACE FUNCTION memory.left_scopes(p_agent bigint, p_scope_ids bigint[]) RETURNS TABLE (scope_id bigint)
LANGUAGE sql STABLE AS $$
    SELECT g.scope_id FROM memory.group_scopes(p_agent, p_scope_ids) g
    WHERE EXISTS (
        SELECT FROM memory.members m WHERE m.agent_key = p_agent AND m.scope_id = g.main_scope_id AND m.left_at IS NOT NULL OFFSET 0
    )
$$;
COMMENT ON FUNCTION memory.left_scopes IS 'The scopes of groups that somebody has left; one row per scope.';
