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
      AND EXISTS (SELECT FROM memory.visible_conversations(p_agent, p_user, NULL, e.conversation_id))
    ORDER BY m.observed_at, m.scope_id, m.seq;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.episode_observations(text, text, text, bigint) FROM PUBLIC;

COMMENT ON FUNCTION memory.episode_observations IS 'What a user of an agent may see of an episode; one row per observation.';

-- memory.episode_of(agent_key, scope_id, seq): the episode of an observation; null: none. Whoever asks has found the observation, so it
-- runs as its owner.
CREATE OR REPLACE FUNCTION memory.episode_of(p_agent bigint, p_scope bigint, p_seq integer) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
    SELECT n.episode_id FROM memory.observation_episodes n WHERE n.agent_key = p_agent AND n.scope_id = p_scope AND n.seq = p_seq
$$;

REVOKE EXECUTE ON FUNCTION memory.episode_of(bigint, bigint, integer) FROM PUBLIC;

COMMENT ON FUNCTION memory.episode_of IS 'The episode in which an observation was said; one value.';
