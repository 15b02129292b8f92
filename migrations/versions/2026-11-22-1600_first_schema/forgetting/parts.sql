CREATE OR REPLACE FUNCTION memory.parts(p_agent bigint, p_scope bigint, p_seq integer) RETURNS SETOF integer
LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT o.seq FROM memory.observations o WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.part_of = p_seq
    UNION ALL
    SELECT o.part_of FROM memory.observations o
    WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.seq = p_seq AND o.part_of IS NOT NULL
$$;
COMMENT ON FUNCTION memory.parts IS 'What an observation is a part of, and its own parts; one row per observation.';
