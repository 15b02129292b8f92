-- memory.has_left(agent_key, scope, user): whether somebody has left the group of this scope by any of their ids, none of which has
-- come back since by the host's word: then no message makes them a member again. Not by an id alone that isn't theirs for good: that
-- they belong to the group through another id, which joined before they left, is no coming back. Who was forgotten after leaving
-- comes back by the host's word as well. One value.
CREATE OR REPLACE FUNCTION memory.has_left(p_agent bigint, p_scope bigint, p_user text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (
        WITH ids AS MATERIALIZED (
            SELECT i.user_id FROM memory.user_ids(p_agent, memory.person(p_agent, p_user)) i
        ), gone AS MATERIALIZED (
            SELECT i.user_id, max(m.left_at) AS left_at
            FROM ids i
            JOIN memory.members m ON m.agent_key = p_agent AND m.scope_id = p_scope AND m.user_id = i.user_id
            GROUP BY i.user_id
            HAVING bool_and(m.left_at IS NOT NULL)
        )
        SELECT FROM gone g
        WHERE NOT EXISTS (
            SELECT FROM ids i
            JOIN memory.members m ON m.agent_key = p_agent AND m.scope_id = p_scope AND m.user_id = i.user_id
            WHERE m.left_at IS NULL AND m.joined_at > g.left_at AND m.source = 'host'
        )
        UNION ALL
        SELECT FROM ids i
        JOIN memory.departures d ON d.agent_key = p_agent AND d.scope_id = p_scope AND d.user_hash = memory.user_hash(p_agent, i.user_id)
        WHERE EXISTS (SELECT FROM memory.departures e WHERE e.agent_key = p_agent)
    );
END
$$;

COMMENT ON FUNCTION memory.has_left IS 'Whether somebody has left a group, and not come back by the host''s word; one value.';
