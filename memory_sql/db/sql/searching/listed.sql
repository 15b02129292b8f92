-- memory.listed(…): observations that the principal may see. One row per observation: the one of that scope and number, whatever
-- its state unless it is set aside; or, where p_seq is null, the p_limit newest known in use, newest first, of that scope or of all
-- active ones, behind the one that p_before, p_before_scope and p_before_seq name. Each scope is read along
-- observations_created_at_idx, and only those whose first is among the p_limit newest: what a page doesn't hold is never sorted. It
-- runs as its owner and asks memory.visible_scopes itself, so that it is one round trip behind walls as well.
CREATE OR REPLACE FUNCTION memory.listed(
    p_agent text, p_user text, p_conversation text, p_scope bigint, p_seq bigint, p_limit bigint,
    p_before timestamptz, p_before_scope bigint, p_before_seq bigint
) RETURNS TABLE (
    observation memory.observations, scope_kind text, owner text, name text, status text, verification text,
    superseded_by integer, pending boolean, version integer, resolved text
)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    IF p_seq IS NOT NULL THEN
        RETURN QUERY
        SELECT o.* FROM memory.visible_scopes(p_agent, p_user, p_conversation) v
        CROSS JOIN LATERAL memory.observation_as_read(v.agent_key, v.scope_id, least(p_seq, 2147483647)::integer) o
        WHERE v.scope_id = p_scope AND NOT memory.is_aside(o.status);
        RETURN;
    END IF;
    RETURN QUERY
    WITH visible AS MATERIALIZED (  -- `behind`: before which number, of what was known at that very moment
        SELECT s.agent_key, s.scope_id, coalesce(p_before, 'infinity') AS at,
               CASE WHEN s.scope_id = p_before_scope THEN p_before_seq
                    WHEN s.scope_id > p_before_scope THEN 0 ELSE 1::bigint << 40 END AS behind
        FROM memory.visible_scopes(p_agent, p_user, p_conversation) v
        JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id
        WHERE s.is_active AND (p_scope IS NULL OR s.scope_id = p_scope)
    ), newest AS MATERIALIZED (
        SELECT v.* FROM visible v
        CROSS JOIN LATERAL memory.newest_known(v.agent_key, v.scope_id, v.at, v.behind, 1) n
        ORDER BY n.known_at DESC, v.scope_id DESC
        LIMIT p_limit
    ), page AS MATERIALIZED (
        SELECT v.agent_key, v.scope_id, n.seq, n.known_at
        FROM newest v
        CROSS JOIN LATERAL memory.newest_known(v.agent_key, v.scope_id, v.at, v.behind, p_limit) n
        ORDER BY n.known_at DESC, v.scope_id DESC, n.seq DESC
        LIMIT p_limit
    )
    SELECT o.* FROM page p
    CROSS JOIN LATERAL memory.observation_as_read(p.agent_key, p.scope_id, p.seq) o
    ORDER BY p.known_at DESC, p.scope_id DESC, p.seq DESC;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.listed(text, text, text, bigint, bigint, bigint, timestamptz, bigint, bigint) FROM PUBLIC;

COMMENT ON FUNCTION memory.listed IS 'What a user of an agent may see, by its number or newest first; one row per observation.';

-- memory.newest_known(…): the observations in use that a scope knew before a moment, or at it before that number, newest first. What
-- was said again is as new as that.
CREATE OR REPLACE FUNCTION memory.newest_known(p_agent bigint, p_scope bigint, p_at timestamptz, p_behind bigint, p_limit bigint)
RETURNS TABLE (seq integer, known_at timestamptz)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT o.seq, greatest(o.created_at, o.said_again_at)
    FROM memory.observations o
    WHERE o.agent_key = p_agent AND o.scope_id = p_scope
      AND (greatest(o.created_at, o.said_again_at), o.seq) < (p_at, p_behind) AND o.standing = 'active'
    ORDER BY greatest(o.created_at, o.said_again_at) DESC, o.seq DESC
    LIMIT p_limit
$$;

COMMENT ON FUNCTION memory.newest_known IS 'The newest observations of a scope that are in use; one row per observation.';
