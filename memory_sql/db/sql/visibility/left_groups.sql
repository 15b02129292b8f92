-- memory.left_groups(agent_key, user, as_of): the groups that a user has left. One row per group of which the user was a
-- member under any of their ids (memory.user_ids), and isn't under any of them now. The user may no longer read the
-- conversations of such a group, even those they took part in. A user who comes back counts as not having left. A user who
-- was forgotten after leaving has still left (memory.departures); if the agent has no departures, nothing is hashed. Uses
-- the index of closed memberships: for a user who has left no group, nothing else is read.
CREATE OR REPLACE FUNCTION memory.left_groups(p_agent bigint, p_user text, p_as_of timestamptz DEFAULT NULL)
RETURNS TABLE (group_id text)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    WITH mine AS MATERIALIZED (SELECT ARRAY(SELECT i.user_id FROM memory.user_ids(p_agent, p_user, p_as_of) i) AS ids)
    SELECT substr(g.owner, 3)
    FROM (
        SELECT m.scope_id
        FROM mine i
        CROSS JOIN LATERAL (  -- here and below: by the index for all ids, whatever the planner thinks of how many there are
            SELECT m.scope_id FROM memory.members m WHERE m.agent_key = p_agent AND m.user_id = ANY (i.ids) AND m.left_at IS NOT NULL OFFSET 0
        ) m
        UNION ALL
        SELECT d.scope_id
        FROM mine i
        CROSS JOIN LATERAL unnest(i.ids) u(user_id)
        JOIN memory.departures d ON d.agent_key = p_agent AND d.user_hash = memory.user_hash(p_agent, u.user_id)
        WHERE EXISTS (SELECT FROM memory.departures e WHERE e.agent_key = p_agent)
    ) m
    CROSS JOIN LATERAL (SELECT g.owner FROM memory.scopes g WHERE g.agent_key = p_agent AND g.scope_id = m.scope_id OFFSET 0) g
    WHERE m.scope_id NOT IN (
        SELECT o.scope_id
        FROM mine j
        CROSS JOIN LATERAL (
            SELECT o.scope_id FROM memory.members o WHERE o.agent_key = p_agent AND o.user_id = ANY (j.ids) AND o.left_at IS NULL OFFSET 0
        ) o
    )
    GROUP BY g.owner
$$;

COMMENT ON FUNCTION memory.left_groups IS 'The groups that a user has left; one row per group.';
