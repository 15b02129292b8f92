CREATE OR REPLACE FUNCTION memory.derived(
    p_agent bigint, p_scope_ids bigint[], p_seqs integer[], p_evidence_ids bigint[]
)
RETURNS TABLE (scope_id bigint, seq integer)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    v_touched_scope_ids bigint[];
    v_touched_seqs integer[];
    v_scope_ids bigint[] := p_scope_ids;
    v_seqs integer[] := p_seqs;
    v_more_scope_ids bigint[];
    v_more_seqs integer[];
BEGIN
    WITH RECURSIVE touched (scope_id, seq) AS (
        SELECT k.scope_id, k.seq
        FROM unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
        UNION
        SELECT e.scope_id, e.seq
        FROM memory.evidence e WHERE e.agent_key = p_agent AND e.evidence_id = ANY (p_evidence_ids)
        UNION
        SELECT l.scope_id, l.seq
        FROM touched t
        CROSS JOIN LATERAL (  -- one look by the index for each: else all of the agent's might be read
            SELECT m.scope_id, m.seq
            FROM memory.lineage m
            WHERE m.agent_key = p_agent AND m.source_scope_id = t.scope_id AND m.source_seq = t.seq
            OFFSET 0
        ) l
    )
    SELECT array_agg(t.scope_id), array_agg(t.seq) INTO v_touched_scope_ids, v_touched_seqs FROM touched t;
    LOOP
        SELECT array_agg(c.scope_id), array_agg(c.seq) INTO v_more_scope_ids, v_more_seqs
        FROM (
            SELECT l.scope_id, l.seq
            FROM memory.lineage l
            WHERE l.agent_key = p_agent
              AND (l.scope_id, l.seq) IN (SELECT * FROM unnest(v_touched_scope_ids, v_touched_seqs))
              AND (l.scope_id, l.seq) NOT IN (SELECT * FROM unnest(v_scope_ids, v_seqs))
            GROUP BY l.scope_id, l.seq
            HAVING bool_or(
                NOT l.whole
                AND (l.source_scope_id, l.source_seq) IN (SELECT * FROM unnest(v_touched_scope_ids, v_touched_seqs))
            ) OR (bool_and(
                (l.source_scope_id, l.source_seq) IN (SELECT * FROM unnest(v_scope_ids, v_seqs))
                OR EXISTS (
                    SELECT FROM memory.observation_states t
                    WHERE t.agent_key = p_agent AND t.scope_id = l.source_scope_id AND t.seq = l.source_seq
                      AND memory.is_aside(t.status)
                )
            ) AND NOT EXISTS (
                SELECT FROM memory.observations o
                JOIN memory.evidence e ON e.agent_key = p_agent AND e.scope_id = o.scope_id AND e.seq = o.seq
                WHERE o.agent_key = p_agent AND o.scope_id = l.scope_id AND o.seq = l.seq AND o.source_kind = 'propagation'
                  AND (e.user_id IS NOT NULL OR e.conversation_id IS NULL AND e.run_id IS NULL)  -- a person's word, or the host's
                  AND e.repeated_seq IS NULL
                  AND e.withdrawn_by IS NULL AND e.evidence_id NOT IN (SELECT * FROM unnest(p_evidence_ids))
            ))
        ) c;
        EXIT WHEN v_more_scope_ids IS NULL;
        v_scope_ids := v_scope_ids || v_more_scope_ids;
        v_seqs := v_seqs || v_more_seqs;
    END LOOP;
    RETURN QUERY
    SELECT k.scope_id, k.seq
    FROM unnest(v_scope_ids, v_seqs) AS k (scope_id, seq)
    WHERE (k.scope_id, k.seq) NOT IN (SELECT * FROM unnest(p_scope_ids, p_seqs));
END
$$;
COMMENT ON FUNCTION memory.derived IS
    'What was made of observations that go or lose evidence, and can''t stay; one row per observation.';
