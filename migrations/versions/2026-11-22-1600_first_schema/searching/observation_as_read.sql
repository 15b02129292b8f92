CREATE OR REPLACE FUNCTION memory.observation_as_read(p_agent bigint, p_scope bigint, p_seq integer)
RETURNS TABLE (
    observation memory.observations, scope_kind text, owner text, name text, status text, verification text,
    superseded_by integer, pending boolean, version integer, resolved text
)
LANGUAGE sql STABLE PARALLEL SAFE ROWS 1 AS $$
    SELECT o.observation, s.kind, s.owner, s.name, coalesce(t.status, 'active'), coalesce(t.verification, 'unverified'),
           t.superseded_by,
           o.lane = 'absorb' AND memory.in_use(t.status)
               AND (p_seq > s.done_seq OR coalesce(t.repend, false)),
           (  -- as memory.observation_version, which would be called row by row
               SELECT count(*)::integer + 1
               FROM memory.events e
               WHERE e.agent_key = p_agent AND e.scope_id = p_scope AND e.seq = p_seq
           ), t.resolved
    FROM (  -- each by its key, whatever the planner thinks of the table's size
        SELECT o AS observation, o.lane
        FROM memory.observations o
        WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.seq = p_seq
        LIMIT 1
    ) o
    CROSS JOIN LATERAL (
        SELECT s.* FROM memory.scopes s WHERE s.agent_key = p_agent AND s.scope_id = p_scope LIMIT 1
    ) s
    LEFT JOIN LATERAL (
        SELECT t.*
        FROM memory.observation_states t
        WHERE t.agent_key = p_agent AND t.scope_id = p_scope AND t.seq = p_seq
        LIMIT 1
    ) t ON true
$$;
COMMENT ON FUNCTION memory.observation_as_read(bigint, bigint, integer) IS
    'An observation, with its scope and what stands elsewhere about it; at most one row.';
