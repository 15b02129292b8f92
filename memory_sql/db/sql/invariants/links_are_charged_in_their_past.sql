-- A link has lost confidence only for time that has passed since it was made, or seen again.
SELECT a.agent_id, format('o%s-%s', l.scope_id, l.seq) AS key, format('charged until %s', l.charged_until) AS detail
FROM memory.links l
JOIN memory.agents a USING (agent_key)
WHERE l.charged_until < greatest(l.created_at, l.reinforced_at)
   OR l.charged_until IS NOT NULL AND l.confidence IS NULL
