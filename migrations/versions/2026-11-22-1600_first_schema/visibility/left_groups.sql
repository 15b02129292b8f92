CREATE OR REPLACE FUNCTION memory.left_groups(p_agent bigint, p_user text, p_as_of timestamptz, p_groups text[])
RETURNS TABLE (group_id text)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    WITH mine AS MATERIALIZED (SELECT ARRAY(SELECT i.user_id FROM memory.user_ids(p_agent, p_user, p_as_of) i) AS ids)
    SELECT g.group_id
    FROM (SELECT DISTINCT u.group_id FROM unnest(p_groups) u(group_id)) g
    CROSS JOIN LATERAL (
        SELECT s.scope_id FROM memory.scopes s WHERE s.agent_key = p_agent AND s.owner = 'g:' || g.group_id AND s.name = '' OFFSET 0
    ) s
    CROSS JOIN mine i
    WHERE NOT EXISTS (
        SELECT FROM memory.members o WHERE o.agent_key = p_agent AND o.scope_id = s.scope_id AND o.user_id = ANY (i.ids) AND o.left_at IS NULL OFFSET 0
    ) AND (
        EXISTS (  -- none is open
            SELECT FROM memory.members m WHERE m.agent_key = p_agent AND m.scope_id = s.scope_id AND m.user_id = ANY (i.ids) OFFSET 0
        ) OR EXISTS (SELECT FROM memory.departures e WHERE e.agent_key = p_agent) AND EXISTS (
            SELECT FROM unnest(i.ids) u(user_id)
            JOIN memory.departures d ON d.agent_key = p_agent AND d.scope_id = s.scope_id
                AND d.user_hash = memory.user_hash(p_agent, u.user_id) OFFSET 0
        )
    )
$$;
COMMENT ON FUNCTION memory.left_groups IS 'Those of some groups that a user has left; one row per group.';
