-- What observations and their vectors have for the indexes, as their standing, is the status that observation_states has; and a
-- vector is cold where its observation is.
SELECT a.agent_id, format('o%s-%s', o.scope_id, o.seq) AS key,
       format('%s; standing %s%s', coalesce(t.status, 'active'), o.standing,
              ', of its vector ' || e.standing || CASE WHEN e.cold THEN ', cold' ELSE '' END) AS detail
FROM memory.observations o
JOIN memory.agents a USING (agent_key)
LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq)
LEFT JOIN memory.observation_vectors e USING (agent_key, scope_id, seq)
WHERE o.standing <> coalesce(t.status, 'active') OR e.standing <> o.standing OR e.cold <> o.cold
