-- A trace begins with the episode whose id it has, as long as that is there.
SELECT a.agent_id, format('e%s', e.episode_id) AS key,
       format('its trace e%s begins with an episode of another trace', e.trace_id) AS detail
FROM memory.episodes e
JOIN memory.episodes f ON f.agent_key = e.agent_key AND f.episode_id = e.trace_id
                      AND f.trace_id IS DISTINCT FROM e.trace_id
JOIN memory.agents a ON a.agent_key = e.agent_key
