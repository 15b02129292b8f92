-- A scope's text and version are those of its newest live version; without one it has no text.
SELECT
    a.agent_id,
    'scope ' || s.scope_id AS key,
    format('version %s with %s characters, the newest live one is %s with %s', s.version,
           coalesce(length(s.consolidation), 0), coalesce(c.version, 0), coalesce(length(c.content), 0)) AS detail
FROM memory.scopes s
JOIN memory.agents a USING (agent_key)
LEFT JOIN LATERAL (
    SELECT c.version, c.content
    FROM memory.consolidations c
    WHERE c.agent_key = s.agent_key AND c.scope_id = s.scope_id AND c.live
    ORDER BY c.version DESC
    LIMIT 1
) c ON true
WHERE s.consolidation IS DISTINCT FROM c.content OR s.version <> coalesce(c.version, s.version)
