CREATE OR REPLACE FUNCTION memory.newest_sought(p_agent bigint, p_scope bigint, p_most integer, p_gone integer)
RETURNS TABLE (seq integer)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT n.seq
    FROM (
        (SELECT o.seq FROM memory.observations o
        WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.standing = 'active'
        ORDER BY o.seq DESC LIMIT p_most)
        UNION ALL
        (SELECT o.seq FROM memory.observations o
        WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.standing = 'archived'
        ORDER BY o.seq DESC LIMIT p_most)
        UNION ALL
        (SELECT o.seq FROM memory.observations o
        WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.standing = 'superseded'
        ORDER BY o.seq DESC LIMIT p_gone)
    ) n
    ORDER BY n.seq DESC
    LIMIT p_most
$$;
COMMENT ON FUNCTION memory.newest_sought IS 'The newest observations of a scope that a search may find; one row each.';
