-- A scope's text is its newest live version. A scope without a live version has no text.
SELECT
    a.agent_id,
    'scope ' || s.scope_id AS key,
    format('its text is version %s, which is %s, and the newest live one is %s', s.version,
           CASE WHEN t.version IS NULL THEN 'not there' WHEN t.live THEN 'live' ELSE 'not live' END,
           coalesce(c.version, 0)) AS detail
FROM memory.scopes s
JOIN memory.agents a USING (agent_key)
LEFT JOIN memory.consolidations t ON t.agent_key = s.agent_key AND t.scope_id = s.scope_id AND t.version = s.version
LEFT JOIN LATERAL (
    SELECT c.version
    FROM memory.consolidations c
    WHERE c.agent_key = s.agent_key AND c.scope_id = s.scope_id AND c.live
    ORDER BY c.version DESC
    LIMIT 1
) c ON true
WHERE t.version IS DISTINCT FROM c.version
