CREATE OR REPLACE FUNCTION memory.agent_settings(p_agent text) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
    SELECT a.settings
    FROM memory.agents a
    WHERE a.agent_id = p_agent AND (
        memory.principal() ? 'serves_all' OR memory.principal() @> jsonb_build_object('serves', p_agent)
            OR memory.principal() @> jsonb_build_object('agent', p_agent)
    ) IS NOT false
$$;
REVOKE EXECUTE ON FUNCTION memory.agent_settings(text) FROM PUBLIC;
COMMENT ON FUNCTION memory.agent_settings IS 'The settings that an agent has of its own, by name.';
