-- memory.evict_buffers(agent_key, scope_ids, at): of each of these scopes that has a buffer its newest active observations stay,
-- as many as buffer_max; the others are evicted, each with an event. A part of memory.refresh_due, and so of every transaction
-- that adds observations or changes their status; the caller holds the scopes' row locks.
CREATE OR REPLACE FUNCTION memory.evict_buffers(p_agent bigint, p_scopes bigint[], p_at timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_scope bigint;
BEGIN
    FOREACH v_scope IN ARRAY coalesce(p_scopes, '{}') LOOP
        CONTINUE WHEN NOT EXISTS (
            SELECT FROM memory.scopes s WHERE s.agent_key = p_agent AND s.scope_id = v_scope AND s.lanes <> 'absorb'
        );
        WITH evicted AS (
            INSERT INTO memory.observation_states (agent_key, scope_id, seq, status, status_at)
            SELECT p_agent, v_scope, o.seq, 'evicted', p_at
            FROM memory.observations o
            WHERE o.agent_key = p_agent AND o.scope_id = v_scope AND o.lane = 'buffer' AND o.standing = 'active'
            ORDER BY o.seq DESC
            OFFSET (SELECT s.buffer_max FROM memory.scopes s WHERE s.agent_key = p_agent AND s.scope_id = v_scope)
            ON CONFLICT (agent_key, scope_id, seq) DO UPDATE SET status = excluded.status, status_at = excluded.status_at
            RETURNING seq
        )
        INSERT INTO memory.events (agent_key, kind, scope_id, seq, detail, created_at)
        SELECT p_agent, 'status', v_scope, seq, '{"from": "active", "to": "evicted", "why": "buffer"}', p_at
        FROM evicted;
    END LOOP;
END
$$;

COMMENT ON FUNCTION memory.evict_buffers IS 'Evicts what exceeds the buffers of these scopes, oldest first.';
