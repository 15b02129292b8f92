-- memory.observation_version(agent_key, scope_id, seq): how often something was said about an observation since it was
-- made, and one; for optimistic locks. One number. It runs as its owner, since no user may read events.
CREATE OR REPLACE FUNCTION memory.observation_version(p_agent bigint, p_scope bigint, p_seq integer) RETURNS integer
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
    SELECT count(*)::integer + 1
    FROM memory.events e
    WHERE e.agent_key = p_agent AND e.scope_id = p_scope AND e.seq = p_seq
$$;

REVOKE EXECUTE ON FUNCTION memory.observation_version(bigint, bigint, integer) FROM PUBLIC;

COMMENT ON FUNCTION memory.observation_version IS 'Rises with each change of what is said about an observation.';
