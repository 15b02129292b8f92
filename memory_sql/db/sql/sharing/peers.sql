-- memory.peers(agent_key, scope, target, limit): the scopes whose observations are compared with a claim of this scope when
-- it is judged for a target. One row per scope, most recently active first. For the collective scope: all groups with at
-- least two members, including this one. For a group: the individual scopes of its other members.
CREATE OR REPLACE FUNCTION memory.peers(p_agent bigint, p_scope bigint, p_target bigint, p_limit integer)
RETURNS TABLE (scope_id bigint)
LANGUAGE sql STABLE AS $$
    SELECT x.scope_id
    FROM (
        SELECT g.scope_id, g.last_activity_at
        FROM memory.scopes s
        JOIN memory.scopes g ON g.agent_key = s.agent_key AND g.kind = 'group' AND g.name = '' AND g.is_active
        WHERE s.agent_key = p_agent AND s.scope_id = p_scope AND s.kind = 'group'
          AND (SELECT count(*) FROM memory.members_of(p_agent, g.scope_id)) >= 2
        UNION ALL
        SELECT i.scope_id, i.last_activity_at
        FROM memory.scopes s
        JOIN memory.members m ON m.agent_key = s.agent_key AND m.scope_id = p_target AND m.left_at IS NULL
        JOIN memory.scopes i ON i.agent_key = s.agent_key AND i.owner = 'u:' || m.user_id AND i.name = '' AND i.is_active
        WHERE s.agent_key = p_agent AND s.scope_id = p_scope AND s.kind = 'individual' AND i.scope_id <> p_scope
    ) x
    ORDER BY x.last_activity_at DESC NULLS LAST, x.scope_id
    LIMIT p_limit
$$;

COMMENT ON FUNCTION memory.peers IS
    'The scopes whose observations are compared with those of a scope that is judged; one row per scope.';
