-- A derived observation has the status that its sources give it: it isn't in use if every source is superseded or set aside,
-- and it is restored with its source if it was set aside for that reason.
SELECT
    a.agent_id,
    format('o%s-%s', u.scope_id, u.seq) AS key,
    format('%s, but its sources leave it %s', u.status, u.becomes) AS detail
FROM memory.agents a
CROSS JOIN LATERAL memory.unsettled(a.agent_key, NULL) u
