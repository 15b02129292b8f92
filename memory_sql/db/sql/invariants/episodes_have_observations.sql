-- An episode of which nothing is remembered any more is gone: a trigger deletes it with its last observation.
SELECT a.agent_id, format('e%s', e.episode_id) AS key, 'it has no observation' AS detail
FROM memory.episodes e
JOIN memory.agents a USING (agent_key)
WHERE NOT EXISTS (
    SELECT FROM memory.observation_episodes n WHERE n.agent_key = e.agent_key AND n.episode_id = e.episode_id
)
