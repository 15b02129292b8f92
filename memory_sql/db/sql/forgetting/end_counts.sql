-- memory.end_counts(agent, before, limit): deletes counts of how often observations were retrieved, from before that day, at
-- most so many, of one agent or of all where it is null; says how many. It waits for nobody: several at once share the work.
-- Runs as its owner, who may delete where the application may not.
CREATE OR REPLACE FUNCTION memory.end_counts(p_agent text, p_before date, p_limit bigint) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
    WITH over AS (
        SELECT r.agent_key, r.scope_id, r.seq, r.day, r.surface
        FROM memory.observation_retrievals r
        WHERE r.day < p_before
          AND (p_agent IS NULL OR r.agent_key = (SELECT a.agent_key FROM memory.agents a WHERE a.agent_id = p_agent))
        ORDER BY r.day
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM memory.observation_retrievals r
        USING over o
        WHERE r.agent_key = o.agent_key AND r.scope_id = o.scope_id AND r.seq = o.seq
          AND r.day = o.day AND r.surface = o.surface
        RETURNING r.seq
    )
    SELECT count(*) FROM gone
$$;

REVOKE EXECUTE ON FUNCTION memory.end_counts(text, date, bigint) FROM PUBLIC;

COMMENT ON FUNCTION memory.end_counts IS 'Deletes counts of retrieved observations that are too old, and says how many; one value.';
