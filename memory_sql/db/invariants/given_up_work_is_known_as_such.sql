-- What was given up names the dead run of its own, and every dead run is the one that its session or scope names.
SELECT
    a.agent_id,
    coalesce('session ' || t.session_id, 'scope ' || t.scope_id) AS key,
    format('dead_run_id %s, which is %s', t.dead_run_id, coalesce(r.state, 'missing')) AS detail
FROM (
    SELECT agent_key, session_id, NULL::bigint AS scope_id, dead_run_id
    FROM memory.sessions
    WHERE dead_run_id IS NOT NULL
    UNION ALL
    SELECT agent_key, NULL, scope_id, dead_run_id
    FROM memory.scopes
    WHERE dead_run_id IS NOT NULL
) t
JOIN memory.agents a USING (agent_key)
LEFT JOIN memory.runs r ON r.agent_key = t.agent_key AND r.run_id = t.dead_run_id
WHERE (r.state, r.session_id, r.scope_id) IS DISTINCT FROM ('dead', t.session_id, t.scope_id)
UNION ALL
SELECT
    a.agent_id,
    'run ' || r.run_id,
    format('dead, but dead_run_id of its target is %s', coalesce(coalesce(t.dead_run_id, s.dead_run_id)::text, 'none'))
FROM memory.runs r
JOIN memory.agents a USING (agent_key)
LEFT JOIN memory.sessions t ON t.agent_key = r.agent_key AND t.session_id = r.session_id
LEFT JOIN memory.scopes s ON s.agent_key = r.agent_key AND s.scope_id = r.scope_id
WHERE r.state = 'dead' AND r.run_id IS DISTINCT FROM coalesce(t.dead_run_id, s.dead_run_id)
