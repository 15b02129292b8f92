-- memory.episode_observations(agent, user, conversation, episode): what a principal may see of an episode of a conversation that they
-- may see, oldest first. One row per observation that counts in it (memory.episode_members), as memory.observation_as_read. Runs as
-- its owner and asks who may see what itself.
CREATE OR REPLACE FUNCTION memory.episode_observations(p_agent text, p_user text, p_conversation text, p_episode bigint)
RETURNS TABLE (
    observation memory.observations, scope_kind text, owner text, name text, status text, verification text,
    superseded_by integer, pending boolean, version integer, resolved text
)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    v_agent bigint;
    v_scopes bigint[];
BEGIN
    SELECT max(v.agent_key), array_agg(v.scope_id) INTO v_agent, v_scopes FROM memory.visible_scopes(p_agent, p_user, p_conversation) v;
    RETURN QUERY
    SELECT o.*
    FROM memory.episodes e
    CROSS JOIN LATERAL memory.episode_members(e.agent_key, e.episode_id) m
    CROSS JOIN LATERAL memory.observation_as_read(e.agent_key, m.scope_id, m.seq) o
    WHERE e.agent_key = v_agent AND e.episode_id = p_episode AND m.scope_id = ANY (v_scopes)
      AND memory.sees_conversation(p_agent, p_user, e.conversation_id)
    ORDER BY m.observed_at, m.scope_id, m.seq;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.episode_observations(text, text, text, bigint) FROM PUBLIC;

COMMENT ON FUNCTION memory.episode_observations IS 'What a user of an agent may see of an episode; one row per observation.';

-- memory.episode_of(agent, user, conversation, scope_id, seq): the episode of an observation, if the principal may see the observation
-- (memory.visible_scopes, in p_conversation) and the conversation (memory.visible_conversations); null: none. Runs as its owner, and asks
-- who may see what itself.
CREATE OR REPLACE FUNCTION memory.episode_of(p_agent text, p_user text, p_conversation text, p_scope bigint, p_seq integer)
RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp SET jit = off AS $$
DECLARE
    v_found record;
BEGIN
    SELECT e.episode_id, e.conversation_id INTO v_found
    FROM memory.agents a
    JOIN memory.observation_episodes n ON n.agent_key = a.agent_key AND n.scope_id = p_scope AND n.seq = p_seq
    JOIN memory.episodes e ON e.agent_key = n.agent_key AND e.episode_id = n.episode_id
    WHERE a.agent_id = p_agent;
    IF NOT FOUND  -- nothing is asked for what has none
        OR NOT EXISTS (SELECT FROM memory.visible_scopes(p_agent, p_user, p_conversation) v WHERE v.scope_id = p_scope)
        OR NOT memory.sees_conversation(p_agent, p_user, v_found.conversation_id)
    THEN
        RETURN NULL;
    END IF;
    RETURN v_found.episode_id;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.episode_of(text, text, text, bigint, integer) FROM PUBLIC;

COMMENT ON FUNCTION memory.episode_of IS 'The episode in which an observation was said, for a user who may see both; one value.';
