-- What was made of others has the state that these leave it: nothing is told of which every source is superseded or set aside,
-- and what went for that reason comes back with its source.
SELECT
    a.agent_id,
    format('o%s-%s', u.scope_id, u.seq) AS key,
    format('%s, but its sources leave it %s', u.status, u.becomes) AS detail
FROM memory.agents a
CROSS JOIN LATERAL memory.unsettled(a.agent_key, NULL) u
