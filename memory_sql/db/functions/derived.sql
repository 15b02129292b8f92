-- memory.derived(agent_key, scope_ids, seqs, lost_scope_ids, lost_seqs): what can't stay when the observations (scope_ids[i],
-- seqs[i]) go and (lost_scope_ids[i], lost_seqs[i]) lose some of their evidence. One row per observation that was made of
-- them, over all levels, without themselves. What was made of one source alone (lineage.whole) stays while another such source
-- is left that said the same and isn't quarantined; what was merged of several goes when any of them goes or loses a word: it is judged anew.
CREATE OR REPLACE FUNCTION memory.derived(
    p_agent bigint, p_scope_ids bigint[], p_seqs integer[], p_lost_scope_ids bigint[], p_lost_seqs integer[]
)
RETURNS TABLE (scope_id bigint, seq integer)
LANGUAGE plpgsql STABLE
AS $$
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
        FROM unnest(p_scope_ids || p_lost_scope_ids, p_seqs || p_lost_seqs) AS k (scope_id, seq)
        UNION
        SELECT l.scope_id, l.seq
        FROM touched t
        JOIN memory.lineage l ON l.agent_key = p_agent AND l.source_scope_id = t.scope_id AND l.source_seq = t.seq
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
            ) OR bool_and(
                (l.source_scope_id, l.source_seq) IN (SELECT * FROM unnest(v_scope_ids, v_seqs))
                OR EXISTS (
                    SELECT
                    FROM memory.observation_states t
                    WHERE t.agent_key = p_agent AND t.scope_id = l.source_scope_id AND t.seq = l.source_seq
                      AND t.status = 'quarantined'
                )
            )
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

COMMENT ON FUNCTION memory.derived(bigint, bigint[], integer[], bigint[], integer[]) IS
    'What was made of observations that go or lose evidence, and can''t stay; one row per observation.';
