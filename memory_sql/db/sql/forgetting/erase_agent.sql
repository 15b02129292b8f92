-- memory.erase_agent(agent_key, at): deletes everything of an agent but its id, the events other than its actions, and what mustn't be
-- imported again, and counts it. One row per table. The caller has locked the agent's row. Runs as its owner, as memory.erase does.
CREATE OR REPLACE FUNCTION memory.erase_agent(p_agent bigint, p_at timestamptz) RETURNS TABLE (what text, counted bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
BEGIN
    PERFORM FROM memory.agents a WHERE a.agent_key = p_agent FOR KEY SHARE;  -- which a user may not
    IF NOT FOUND THEN  -- behind walls, where nobody has named the principal: better an error than nothing erased
        RAISE EXCEPTION 'this transaction does not work for agent %', p_agent USING ERRCODE = 'insufficient_privilege';
    END IF;

    INSERT INTO memory.forgotten_refs (agent_key, ref_hash, forgotten_at)
    SELECT p_agent, i.ref_hash, p_at FROM memory.imported i WHERE i.agent_key = p_agent
    UNION
    SELECT p_agent, i.ref_hash, p_at FROM memory.imported_messages i WHERE i.agent_key = p_agent
    ON CONFLICT DO NOTHING;
    INSERT INTO memory.forgotten_ids AS f (agent_key, kind, id_hash, forgotten_at)
    SELECT a.agent_key, 'agent', memory.user_hash(a.agent_key, a.agent_id), p_at FROM memory.agents a WHERE a.agent_key = p_agent
    ON CONFLICT (agent_key, kind, id_hash) DO UPDATE SET forgotten_at = greatest(f.forgotten_at, excluded.forgotten_at);
    FOREACH what IN ARRAY ARRAY[
        'imported', 'imported_messages', 'judged', 'lineage', 'evidence', 'observation_states', 'observation_vectors',
        'observation_retrievals', 'observation_feedback', 'rechecked', 'links', 'observation_episodes', 'episodes', 'observations', 'consolidations', 'members', 'departures', 'user_aliases', 'runs', 'messages', 'conversations',
        'prompts', 'scopes', 'holds', 'retrievals'
    ] LOOP
        IF what = 'observation_states' THEN  -- each goes along with its observation
            SELECT count(*) INTO counted FROM memory.observation_states t WHERE t.agent_key = p_agent;
        ELSE
            EXECUTE format('DELETE FROM memory.%I WHERE agent_key = $1', what) USING p_agent;
            GET DIAGNOSTICS counted = ROW_COUNT;
        END IF;
        RETURN NEXT;
    END LOOP;
    DELETE FROM memory.events WHERE agent_key = p_agent AND kind = 'action';  -- of which guidelines would be learnt anew
    GET DIAGNOSTICS counted = ROW_COUNT;
    what := 'events';
    RETURN NEXT;
    UPDATE memory.agents SET settings = '{}' WHERE agent_key = p_agent;
    UPDATE memory.events SET reason = NULL WHERE agent_key = p_agent;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.erase_agent(bigint, timestamptz) FROM PUBLIC;

COMMENT ON FUNCTION memory.erase_agent IS 'Takes out everything of an agent, and counts it; one row per table.';
