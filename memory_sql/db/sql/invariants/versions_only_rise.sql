-- A scope's version is at least that of every version of its text, live or undone, and no version was rewritten from a
-- later one.
SELECT
    a.agent_id,
    format('s%sv%s', c.scope_id, c.version) AS key,
    format('base %s, the scope is at version %s', c.base, s.version) AS detail
FROM memory.consolidations c
JOIN memory.scopes s USING (agent_key, scope_id)
JOIN memory.agents a USING (agent_key)
WHERE c.version > s.version OR c.base >= c.version OR c.base < 0
