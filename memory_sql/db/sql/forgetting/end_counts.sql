-- memory.end_counts(agent, before, limit): deletes counts of how often observations were retrieved, and what was thought of them, from
-- before that day, at most so many of both, of one agent or of all where it is null; says how many. It waits for nobody: several at
-- once share the work. Runs as its owner, who may delete where the application may not.
CREATE OR REPLACE FUNCTION memory.end_counts(p_agent text, p_before date, p_limit bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
DECLARE
    v_agent bigint := (SELECT a.agent_key FROM memory.agents a WHERE a.agent_id = p_agent);
    v_gone bigint;
    v_counted bigint;
BEGIN
    WITH over AS (
        SELECT r.agent_key, r.scope_id, r.seq, r.day, r.surface
        FROM memory.observation_retrievals r
        WHERE r.day < p_before AND (p_agent IS NULL OR r.agent_key = v_agent)
        ORDER BY r.day
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    )
    DELETE FROM memory.observation_retrievals r
    USING over o
    WHERE r.agent_key = o.agent_key AND r.scope_id = o.scope_id AND r.seq = o.seq AND r.day = o.day AND r.surface = o.surface;
    GET DIAGNOSTICS v_counted = ROW_COUNT;
    WITH over AS (
        SELECT f.agent_key, f.scope_id, f.seq, f.day
        FROM memory.observation_feedback f
        WHERE f.day < p_before AND (p_agent IS NULL OR f.agent_key = v_agent)
        ORDER BY f.day
        LIMIT p_limit - v_counted
        FOR UPDATE SKIP LOCKED
    )
    DELETE FROM memory.observation_feedback f
    USING over o
    WHERE f.agent_key = o.agent_key AND f.scope_id = o.scope_id AND f.seq = o.seq AND f.day = o.day;
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    RETURN v_counted + v_gone;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.end_counts(text, date, bigint) FROM PUBLIC;

COMMENT ON FUNCTION memory.end_counts IS 'Deletes counts and feedback of observations that are too old, and says how many; one value.';
