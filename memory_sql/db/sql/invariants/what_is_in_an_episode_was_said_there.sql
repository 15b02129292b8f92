-- What a formation has put into an episode stays there no longer than something that was said in its conversation supports it.
SELECT a.agent_id, format('o%s-%s', o.scope_id, o.seq) AS key,
       format('nothing of the conversation of its episode e%s supports it', e.episode_id) AS detail
FROM memory.observation_episodes n
JOIN memory.episodes e USING (agent_key, episode_id)
JOIN memory.observations o USING (agent_key, scope_id, seq)
JOIN memory.agents a USING (agent_key)
WHERE o.source_kind = 'formation' AND o.conversation_id = e.conversation_id AND NOT EXISTS (
    SELECT FROM memory.evidence v
    WHERE v.agent_key = o.agent_key AND v.scope_id = o.scope_id AND v.seq = o.seq
      AND v.conversation_id = e.conversation_id AND v.repeated_seq IS NULL
)
