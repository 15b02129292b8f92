CREATE OR REPLACE FUNCTION memory.similar(
    p_agent text, p_user text, p_conversation text, p_as_of timestamptz, p_model text, p_bits bit varying,
    p_superseded boolean
) RETURNS TABLE (scope_id bigint, seq integer, meaning double precision)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_agent bigint;
    v_scopes bigint[];
    v_listed_scopes bigint[];
    v_listed_seqs integer[];
BEGIN
    SELECT max(s.agent_key), array_agg(s.scope_id)
    INTO v_agent, v_scopes
    FROM memory.searched_scopes(p_agent, p_user, p_conversation, p_as_of, NULL) v
    JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id
    WHERE s.is_active;
    -- Now all but what is listed is sought, which is less; as of a moment only what is listed.
    IF p_as_of IS NULL THEN
        SELECT array_agg(t.scope_id), array_agg(t.seq)
        INTO v_listed_scopes, v_listed_seqs
        FROM unnest(v_scopes) s(scope_id)
        JOIN memory.observation_states t ON t.agent_key = v_agent AND t.scope_id = s.scope_id
        WHERE NOT memory.is_sought(t.status, p_superseded);
    ELSE
        SELECT array_agg(k.scope_id), array_agg(k.seq)
        INTO v_listed_scopes, v_listed_seqs
        FROM memory.known_at(p_agent, p_user, p_conversation, p_as_of) k
        WHERE memory.is_sought(k.status, p_superseded);
    END IF;
    RETURN QUERY
    SELECT n.scope_id, n.seq,
           coalesce((max(n.distance) OVER w - n.distance) / nullif(stddev_pop(n.distance) OVER w, 0), 0)::float8
    FROM (
        SELECT e.scope_id, e.seq, bit_count(e.bits # p_bits) AS distance
        FROM unnest(v_scopes) s(scope_id)
        CROSS JOIN LATERAL (  -- by its key, whatever the planner thinks of how many there are
            SELECT e.scope_id, e.seq, e.bits
            FROM memory.observation_vectors e
            WHERE e.agent_key = v_agent AND e.scope_id = s.scope_id AND e.model = p_model
              AND length(e.bits) = length(p_bits)
            OFFSET 0
        ) e
        WHERE (p_as_of IS NOT NULL) = ((e.scope_id, e.seq) IN (
            SELECT l.scope_id, l.seq FROM unnest(v_listed_scopes, v_listed_seqs) l(scope_id, seq)
        ))
        ORDER BY distance, e.seq DESC, e.scope_id
        LIMIT 50
    ) n
    WINDOW w AS ();
END
$$;
REVOKE EXECUTE ON FUNCTION memory.similar(text, text, text, timestamptz, text, bit varying, boolean) FROM PUBLIC;
COMMENT ON FUNCTION memory.similar(text, text, text, timestamptz, text, bit varying, boolean) IS
    'The observations nearest to a query in meaning, of those that a user may see; one row per observation.';
