CREATE OR REPLACE FUNCTION memory.person(p_agent bigint, p_user text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    WITH RECURSIVE line (user_id, step) AS (
        SELECT p_user, 0
        UNION ALL
        SELECT a.into_user_id, l.step + 1
        FROM line l
        JOIN memory.user_aliases a ON a.agent_key = p_agent AND a.user_id = l.user_id AND a.ended_at IS NULL
        WHERE l.step < 100  -- a cycle, which the library prevents, would end here
    )
    SELECT l.user_id FROM line l ORDER BY l.step DESC LIMIT 1
$$;
COMMENT ON FUNCTION memory.person IS 'The id of the person for whom a user''s id stands.';
CREATE OR REPLACE FUNCTION memory.members_of(p_agent bigint, p_scope bigint) RETURNS TABLE (person text)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT DISTINCT memory.person(p_agent, m.user_id)
    FROM memory.members m
    WHERE m.agent_key = p_agent AND m.scope_id = p_scope AND m.left_at IS NULL
$$;
COMMENT ON FUNCTION memory.members_of IS 'The people who belong to a group now; one row per person.';
