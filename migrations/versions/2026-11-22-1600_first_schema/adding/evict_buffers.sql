-- memory.evict_buffers(agent_key, scope_ids, at): of each of these scopes that has a buffer its newest active observations stay,
-- as many as buffer_max; the others are evicted, each with an event. A part of memory.refresh_due, and so of every transaction
-- that adds observations or changes their status; the caller holds the scopes' row locks.
CREATE OR REPLACE FUNCTION memory.evict_buffers(p_agent bigint, p_scopes bigint[], p_at timestamptz) RETURNS void
LANGUAGE sql VOLATILE
AS $$
    WITH evicted AS (
        INSERT INTO memory.observation_states (agent_key, scope_id, seq, status, status_at)
        SELECT p_agent, s.scope_id, n.seq, 'evicted', p_at
        FROM memory.scopes s
        CROSS JOIN LATERAL (
            SELECT o.seq
            FROM memory.observations o
            LEFT JOIN memory.observation_states t ON t.agent_key = o.agent_key AND t.scope_id = o.scope_id AND t.seq = o.seq
            WHERE o.agent_key = s.agent_key AND o.scope_id = s.scope_id AND o.lane = 'buffer' AND memory.in_use(t.status)
            ORDER BY o.seq DESC
            OFFSET s.buffer_max
        ) n
        WHERE s.agent_key = p_agent AND s.scope_id = ANY (p_scopes) AND s.lanes <> 'absorb'
        ON CONFLICT (agent_key, scope_id, seq) DO UPDATE SET status = excluded.status, status_at = excluded.status_at
        RETURNING scope_id, seq
    )
    INSERT INTO memory.events (agent_key, kind, scope_id, seq, detail, created_at)
    SELECT p_agent, 'status', scope_id, seq, '{"from": "active", "to": "evicted", "why": "buffer"}', p_at
    FROM evicted
$$;

COMMENT ON FUNCTION memory.evict_buffers(bigint, bigint[], timestamptz) IS
    'Evicts what exceeds the buffers of these scopes, oldest first.';
