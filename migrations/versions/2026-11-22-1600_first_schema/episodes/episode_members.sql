CREATE OR REPLACE FUNCTION memory.episode_members(p_agent bigint, p_episode bigint)
RETURNS TABLE (scope_id bigint, seq integer, topics text[], observed_at timestamptz)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT n.scope_id, n.seq, CASE WHEN t.verification = 'disputed' THEN '{}' ELSE n.topics END, o.observed_at
    FROM memory.observation_episodes n
    CROSS JOIN LATERAL (  -- by its key, whatever the planner thinks of how many there are
        SELECT o.* FROM memory.observations o
        WHERE o.agent_key = n.agent_key AND o.scope_id = n.scope_id AND o.seq = n.seq LIMIT 1
    ) o
    LEFT JOIN LATERAL (
        SELECT t.* FROM memory.observation_states t
        WHERE t.agent_key = n.agent_key AND t.scope_id = n.scope_id AND t.seq = n.seq LIMIT 1
    ) t ON true
    WHERE n.agent_key = p_agent AND n.episode_id = p_episode AND memory.is_sought(o.standing, true)
      AND NOT EXISTS (
          SELECT FROM memory.observation_episodes b
          WHERE b.agent_key = n.agent_key AND b.scope_id = n.scope_id AND b.seq = t.superseded_by AND b.episode_id = n.episode_id
      )
      AND NOT (o.standing = 'superseded' AND EXISTS (
          SELECT FROM memory.runs r WHERE r.agent_key = o.agent_key AND r.run_id = o.run_id AND r.state = 'retired'
      ))
    ORDER BY o.observed_at, n.scope_id, n.seq
$$;
COMMENT ON FUNCTION memory.episode_members IS 'The observations that count in an episode; one row each.';
CREATE OR REPLACE FUNCTION memory.episode_topics(p_agent bigint, p_episode bigint) RETURNS text[]
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT memory.best_topics(coalesce(jsonb_agg(to_jsonb(m.topics) ORDER BY m.observed_at, m.scope_id, m.seq), '[]'))
    FROM memory.episode_members(p_agent, p_episode) m
$$;
COMMENT ON FUNCTION memory.episode_topics IS 'What an episode is about; one value.';
