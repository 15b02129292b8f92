-- memory.undo_import(agent_key, import_id): deletes what an import brought to an agent beside observations, which were
-- taken out before, and what says that they were imported: memberships, prompts, its runs, and the scopes that it made and that
-- nobody has added to since. Returns the ids of the scopes that are gone. The caller holds the locks on its scopes. Runs as its
-- owner, as memory.erase does.
CREATE OR REPLACE FUNCTION memory.undo_import(p_agent bigint, p_import bigint) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    PERFORM FROM memory.agents a WHERE a.agent_key = p_agent FOR KEY SHARE;  -- which a user may not
    IF NOT FOUND THEN
        RAISE EXCEPTION 'this transaction does not work for agent %', p_agent USING ERRCODE = 'insufficient_privilege';
    END IF;

    DELETE FROM memory.imported i WHERE i.agent_key = p_agent AND i.import_id = p_import;
    DELETE FROM memory.members m WHERE m.agent_key = p_agent AND m.import_id = p_import;
    DELETE FROM memory.prompts p WHERE p.agent_key = p_agent AND p.import_id = p_import;
    DELETE FROM memory.runs r
    WHERE r.agent_key = p_agent AND r.import_id = p_import
      AND NOT EXISTS (SELECT FROM memory.observations o WHERE o.agent_key = p_agent AND o.run_id = r.run_id)
      AND NOT EXISTS (SELECT FROM memory.consolidations c WHERE c.agent_key = p_agent AND c.run_id = r.run_id);
    RETURN QUERY
    DELETE FROM memory.scopes s
    WHERE s.agent_key = p_agent AND s.import_id = p_import AND s.lease_until IS NULL
      AND NOT EXISTS (SELECT FROM memory.observations o WHERE o.agent_key = p_agent AND o.scope_id = s.scope_id)
      AND NOT EXISTS (SELECT FROM memory.consolidations c WHERE c.agent_key = p_agent AND c.scope_id = s.scope_id)
      AND NOT EXISTS (SELECT FROM memory.runs r WHERE r.agent_key = p_agent AND r.scope_id = s.scope_id)
      AND NOT EXISTS (SELECT FROM memory.members m WHERE m.agent_key = p_agent AND m.scope_id = s.scope_id)
      AND NOT EXISTS (SELECT FROM memory.prompts p WHERE p.agent_key = p_agent AND p.scope_id = s.scope_id)
      AND NOT EXISTS (SELECT FROM memory.imported i WHERE i.agent_key = p_agent AND i.scope_id = s.scope_id)
    RETURNING s.scope_id;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.undo_import(bigint, bigint) FROM PUBLIC;

COMMENT ON FUNCTION memory.undo_import(bigint, bigint) IS
    'Takes out what an import brought beside observations; one row per scope that is gone.';
