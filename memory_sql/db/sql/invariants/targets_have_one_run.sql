-- At most one run of a conversation or scope is running or waits to be applied, and its lease isn't newer than its target's.
SELECT
    a.agent_id,
    coalesce('conversation ' || r.conversation_id, 'scope ' || r.scope_id) AS key,
    format('%s runs under way, under lease %s of %s', r.runs, r.fence, coalesce(t.fence, s.fence)) AS detail
FROM (
    SELECT agent_key, conversation_id, scope_id, count(*) AS runs, max(fence) AS fence
    FROM memory.runs
    WHERE state IN ('running', 'answered')
    GROUP BY agent_key, conversation_id, scope_id
) r
JOIN memory.agents a USING (agent_key)
LEFT JOIN memory.conversations t ON t.agent_key = r.agent_key AND t.conversation_id = r.conversation_id
LEFT JOIN memory.scopes s ON s.agent_key = r.agent_key AND s.scope_id = r.scope_id
WHERE r.runs > 1 OR r.fence > coalesce(t.fence, s.fence)
