CREATE OR REPLACE FUNCTION memory.lived(p_agent bigint, p_scope bigint, p_seq integer, p_at timestamptz)
RETURNS TABLE (uses bigint, last_used_at timestamptz, feedback double precision)
LANGUAGE sql STABLE PARALLEL SAFE ROWS 1 AS $$
    SELECT coalesce(sum(r.times), 0)::bigint, max(r.day)::timestamp AT TIME ZONE 'UTC', (
        SELECT sum(f.total) / sum(f.times)
        FROM memory.observation_feedback f
        WHERE f.agent_key = p_agent AND f.scope_id = p_scope AND f.seq = p_seq AND f.day <= (p_at AT TIME ZONE 'UTC')::date
    )
    FROM memory.observation_retrievals r
    WHERE r.agent_key = p_agent AND r.scope_id = p_scope AND r.seq = p_seq AND r.day <= (p_at AT TIME ZONE 'UTC')::date
$$;
COMMENT ON FUNCTION memory.lived IS 'How often an observation was used until a time, and when last; one row.';
