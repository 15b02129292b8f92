-- A lease has a number, and ends within the longest lease that the settings allow (a day); otherwise the work of a dead
-- worker would wait for ever.
SELECT
    a.agent_id,
    t.key,
    format('lease %s for another %s s', t.fence, round(extract(epoch FROM t.lease_until - clock_timestamp()))) AS detail
FROM (
    SELECT agent_key, 'conversation ' || conversation_id AS key, fence, lease_until
    FROM memory.conversations
    WHERE lease_until IS NOT NULL
    UNION ALL
    SELECT agent_key, 'scope ' || scope_id, fence, lease_until
    FROM memory.scopes
    WHERE lease_until IS NOT NULL
) t
JOIN memory.agents a USING (agent_key)
WHERE t.fence < 1 OR t.lease_until > clock_timestamp() + interval '1 day'
