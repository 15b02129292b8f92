CREATE OR REPLACE FUNCTION memory.detach(p_agent bigint, p_scope_ids bigint[], p_seqs integer[]) RETURNS TABLE (scope_id bigint, seq integer)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
#variable_conflict use_column
DECLARE
    v_scope_ids bigint[];
    v_seqs integer[];
BEGIN
    PERFORM FROM memory.agents a WHERE a.agent_key = p_agent FOR KEY SHARE;  -- which a user may not
    IF NOT FOUND THEN  -- behind walls, where nobody has named the principal: better an error than nothing detached
        RAISE EXCEPTION 'this transaction does not work for agent %', p_agent USING ERRCODE = 'insufficient_privilege';
    END IF;
    WITH gone AS (
        DELETE FROM memory.lineage l
        USING unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
        WHERE l.agent_key = p_agent AND l.source_scope_id = k.scope_id AND l.source_seq = k.seq
          AND NOT EXISTS (
              SELECT FROM memory.observation_states t
              WHERE t.agent_key = p_agent AND t.scope_id = l.scope_id AND t.seq = l.seq AND t.withdrawn_by IS NOT NULL
          )
        RETURNING l.scope_id, l.seq
    ) SELECT array_agg(g.scope_id), array_agg(g.seq) INTO v_scope_ids, v_seqs FROM gone g;
    -- What is left of what was made of it stands on what somebody has said there, where no source is left.
    DELETE FROM memory.evidence e
    USING memory.observations o
    WHERE o.agent_key = p_agent AND o.source_kind = 'propagation' AND (o.scope_id, o.seq) IN (SELECT * FROM unnest(v_scope_ids, v_seqs))
      AND e.agent_key = p_agent AND e.scope_id = o.scope_id AND e.seq = o.seq
      AND e.run_id IS NOT NULL AND e.user_id IS NULL AND e.conversation_id IS NULL
      AND NOT EXISTS (
          SELECT FROM memory.lineage l WHERE l.agent_key = p_agent AND l.scope_id = o.scope_id AND l.seq = o.seq
      );
    UPDATE memory.judged j
    SET outcome = 'refused', reason = 'taken_out', seq = NULL
    FROM unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
    WHERE j.agent_key = p_agent AND j.source_scope_id = k.scope_id AND j.source_seq = k.seq AND j.outcome = 'propagated';
    RETURN QUERY
    SELECT DISTINCT k.scope_id, k.seq FROM unnest(v_scope_ids, v_seqs) AS k (scope_id, seq)
    JOIN memory.left_scopes(p_agent, v_scope_ids) s ON s.scope_id = k.scope_id;
END
$$;
REVOKE EXECUTE ON FUNCTION memory.detach(bigint, bigint[], integer[]) FROM PUBLIC;
COMMENT ON FUNCTION memory.detach IS
    'Takes observations out of the sources of what stays; one row per observation of a group that somebody has left.';
