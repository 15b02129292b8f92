-- What a formation has put into an episode was said in its conversation, and while it went on.
SELECT a.agent_id, format('o%s-%s', o.scope_id, o.seq) AS key, CASE
           WHEN o.conversation_id <> e.conversation_id THEN format('e%s is of another conversation', e.episode_id)
           ELSE format('it was said before or after its episode e%s', e.episode_id)
       END AS detail
FROM memory.observation_episodes n
JOIN memory.episodes e USING (agent_key, episode_id)
JOIN memory.observations o USING (agent_key, scope_id, seq)
JOIN memory.agents a USING (agent_key)
WHERE o.source_kind = 'formation'
  AND (o.conversation_id <> e.conversation_id OR o.observed_at NOT BETWEEN e.opened_at AND e.last_at)
