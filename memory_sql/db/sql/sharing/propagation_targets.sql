-- memory.propagation_targets(agent_key, scope): the scopes to which a scope's observations may be propagated, one level up
-- and nowhere else. One row per scope: for an individual scope the groups to which its user belongs now, for a group the
-- collective scope (its id is null while there is none). A group of one neither receives nor gives: what it knows is that
-- one person's. `sharing`: the group's own setting, null if it has none.
CREATE OR REPLACE FUNCTION memory.propagation_targets(p_agent bigint, p_scope bigint)
RETURNS TABLE (scope_id bigint, kind text, owner text, display_name text, sharing text)
LANGUAGE sql STABLE AS $$
    SELECT g.scope_id, g.kind, g.owner, g.display_name, g.sharing
    FROM memory.scopes s
    CROSS JOIN LATERAL memory.user_ids(p_agent, memory.person(p_agent, substr(s.owner, 3))) i
    CROSS JOIN LATERAL (  -- in this order: neither the ids nor the members are looked up for each scope of the agent
        SELECT m.scope_id FROM memory.members m WHERE m.agent_key = p_agent AND m.user_id = i.user_id AND m.left_at IS NULL OFFSET 0
    ) m
    CROSS JOIN LATERAL (
        SELECT * FROM memory.scopes g WHERE (g.agent_key, g.scope_id, g.kind, g.name) = (p_agent, m.scope_id, 'group', '') AND g.is_active OFFSET 0
    ) g
    WHERE s.agent_key = p_agent AND s.scope_id = p_scope AND s.kind = 'individual' AND s.is_active
      AND (SELECT count(*) FROM memory.members_of(p_agent, g.scope_id)) >= 2
    UNION
    SELECT c.scope_id, 'collective', 'c', c.display_name, s.sharing
    FROM memory.scopes s
    LEFT JOIN memory.scopes c ON c.agent_key = p_agent AND c.owner = 'c' AND c.name = ''
    WHERE s.agent_key = p_agent AND s.scope_id = p_scope AND s.kind = 'group' AND s.name = '' AND s.is_active
      AND c.is_active IS NOT FALSE AND (SELECT count(*) FROM memory.members_of(p_agent, s.scope_id)) >= 2
$$;

COMMENT ON FUNCTION memory.propagation_targets IS
    'The scopes one level up to which a scope''s observations may be propagated; one row per scope.';
