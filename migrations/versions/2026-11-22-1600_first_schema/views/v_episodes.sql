CREATE OR REPLACE VIEW memory.v_episodes WITH (security_invoker = true) AS
SELECT
    a.agent_id,
    'e' || e.episode_id::text AS episode_id,
    e.conversation_id,
    e.opened_at,
    e.last_at,
    e.sealed_at,
    e.seal_reason,
    'e' || e.trace_id::text AS trace_id,
    e.trace_id < e.episode_id AS goes_on,
    n.observations
FROM memory.episodes e
JOIN memory.agents a ON a.agent_key = e.agent_key
CROSS JOIN LATERAL (
    SELECT count(*) AS observations
    FROM memory.observation_episodes n
    JOIN memory.observations o ON o.agent_key = n.agent_key AND o.scope_id = n.scope_id AND o.seq = n.seq
    WHERE n.agent_key = e.agent_key AND n.episode_id = e.episode_id AND memory.is_sought(o.standing, true)
) n;
COMMENT ON VIEW memory.v_episodes IS 'One row per episode: a stretch of a conversation of which something is remembered.';
COMMENT ON COLUMN memory.v_episodes.agent_id IS 'The host''s id for the agent.';
COMMENT ON COLUMN memory.v_episodes.episode_id IS 'e12, as in the API and the context.';
COMMENT ON COLUMN memory.v_episodes.conversation_id IS 'The host''s id for the conversation.';
COMMENT ON COLUMN memory.v_episodes.opened_at IS 'When the first of what is remembered of it was said.';
COMMENT ON COLUMN memory.v_episodes.last_at IS 'When the last of it was said.';
COMMENT ON COLUMN memory.v_episodes.sealed_at IS 'When it ended, by the times of the conversation; null: it is open.';
COMMENT ON COLUMN memory.v_episodes.seal_reason IS 'Why it ended: max_memories, topic_shift, time_gap or forced; null: it is open.';
COMMENT ON COLUMN memory.v_episodes.trace_id IS 'The first episode of those that are about the same; null: it is open.';
COMMENT ON COLUMN memory.v_episodes.goes_on IS 'Whether it goes on with an earlier episode; null: it is open.';
COMMENT ON COLUMN memory.v_episodes.observations IS 'How many observations are remembered of it, also superseded and archived ones.';
