CREATE OR REPLACE FUNCTION memory.take_back_evidence(p_agent bigint, p_scope bigint, p_seqs integer[]) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
BEGIN
    PERFORM FROM memory.agents a WHERE a.agent_key = p_agent FOR KEY SHARE;  -- which a user may not
    IF NOT FOUND THEN  -- behind walls, where nobody has named the principal
        RAISE EXCEPTION 'this transaction does not work for agent %', p_agent USING ERRCODE = 'insufficient_privilege';
    END IF;
    DELETE FROM memory.evidence e
    WHERE e.agent_key = p_agent AND e.scope_id = p_scope AND e.repeated_seq = ANY (p_seqs)
      AND EXISTS (
          SELECT FROM memory.evidence own
          WHERE own.agent_key = p_agent AND own.scope_id = p_scope AND own.seq = e.seq AND own.repeated_seq IS NULL
      );
END
$$;
REVOKE EXECUTE ON FUNCTION memory.take_back_evidence(bigint, bigint, integer[]) FROM PUBLIC;
COMMENT ON FUNCTION memory.take_back_evidence IS
    'Takes evidence back from those that say the same as these observations.';
