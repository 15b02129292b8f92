CREATE OR REPLACE FUNCTION memory.newest_sought(p_agent bigint, p_scope bigint, p_most integer, p_gone integer, p_hot boolean)
RETURNS TABLE (seq integer)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT n.seq
    FROM (
        SELECT n.seq, CASE WHEN bool_or(n.again IS NOT NULL) OVER () THEN greatest(n.at, n.again) END AS at
        FROM (
            (SELECT o.seq, o.created_at AS at, o.said_again_at AS again FROM memory.observations o
            WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.standing = 'active' AND o.said_again_at IS NULL AND NOT p_hot
            ORDER BY o.seq DESC LIMIT p_most)
            UNION ALL
            (SELECT o.seq, o.created_at, o.said_again_at FROM memory.observations o
            WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.standing = 'active' AND o.said_again_at IS NULL AND p_hot AND NOT o.cold
            ORDER BY o.seq DESC LIMIT p_most)
            UNION ALL
            (SELECT o.seq, o.created_at, o.said_again_at FROM memory.observations o
            WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.standing = 'active' AND o.said_again_at IS NOT NULL
              AND NOT (p_hot AND o.cold)
            ORDER BY o.said_again_at DESC, o.seq DESC LIMIT p_most)
            UNION ALL
            (SELECT o.seq, o.created_at, o.said_again_at FROM memory.observations o
            WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.standing = 'archived' AND NOT p_hot
            ORDER BY o.seq DESC LIMIT p_most)
            UNION ALL
            (SELECT o.seq, o.created_at, o.said_again_at FROM memory.observations o
            WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.standing = 'archived' AND p_hot AND NOT o.cold
            ORDER BY o.seq DESC LIMIT p_most)
            UNION ALL
            (SELECT o.seq, o.created_at, o.said_again_at FROM memory.observations o
            WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.standing = 'superseded'
            ORDER BY o.seq DESC LIMIT p_gone)
        ) n
    ) n
    ORDER BY n.at DESC, n.seq DESC
    LIMIT p_most
$$;
COMMENT ON FUNCTION memory.newest_sought IS 'The newest observations of a scope that a search may find; one row each.';
