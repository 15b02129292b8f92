-- memory.forget_one(agent, scope_id, seq, receipt, target, actor, reason, threshold, at): forgets one observation on which nothing
-- else hangs, with its messages and what else was made of them in its scope: locks them in order, looks what goes
-- (memory.forget_closure), takes it out (memory.erase), leaves a tombstone and says what is due. One row: the ids of the
-- `observations` that went, and the `counts` of rows. Both are null, and nothing is changed, where it isn't there, or where more would
-- have to be locked, rewound or restored: something that stays loses by it, was made of it or gave way to it; it was made of
-- something else; a text holds it; a hold keeps any of it. Names its principal itself.
CREATE OR REPLACE FUNCTION memory.forget_one(
    p_agent text, p_scope bigint, p_seq integer, p_receipt text, p_target jsonb, p_actor text, p_reason text,
    p_threshold integer, p_at timestamptz, OUT observations text[], OUT counts json
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_before text := memory.serve(p_agent);
    v_agent bigint;
    v_conversations text[];
    v_goes record;
BEGIN
    SELECT a.agent_key INTO v_agent FROM memory.agents a WHERE a.agent_id = p_agent FOR SHARE;
    v_conversations := ARRAY(
        SELECT t.conversation_id
        FROM memory.conversations t
        WHERE t.agent_key = v_agent AND t.conversation_id = ANY (ARRAY(
            SELECT e.conversation_id
            FROM memory.evidence e WHERE e.agent_key = v_agent AND e.scope_id = p_scope AND e.seq = p_seq
        ))
        ORDER BY t.conversation_id FOR NO KEY UPDATE
    );
    PERFORM FROM memory.scopes s WHERE s.agent_key = v_agent AND s.scope_id = p_scope FOR NO KEY UPDATE;
    v_goes := memory.forget_closure(v_agent, '{}', '{}', '{}', ARRAY[p_scope], ARRAY[p_seq], '{}', '{}', true);
    IF v_goes.seqs <> '{}' AND NOT (
        v_goes.touches_others OR v_goes.held_seqs <> '{}' OR v_goes.held_conversation_ids <> '{}'
        OR NOT (v_goes.scope_ids <@ ARRAY[p_scope] AND v_goes.conversation_ids <@ v_conversations)
        OR EXISTS (
            SELECT FROM unnest(v_goes.seqs) AS k (seq)
            CROSS JOIN LATERAL (
                SELECT FROM memory.lineage l WHERE l.agent_key = v_agent AND l.scope_id = p_scope AND l.seq = k.seq
                UNION ALL
                SELECT FROM memory.judged j WHERE j.agent_key = v_agent AND j.target_scope_id = p_scope AND j.seq = k.seq
                UNION ALL
                SELECT FROM memory.observation_states t
                WHERE t.agent_key = v_agent AND t.scope_id = p_scope AND t.superseded_by = k.seq
            ) l
        )
        OR EXISTS (SELECT FROM memory.tainted_versions(v_agent, '{}', v_goes.scope_ids, v_goes.seqs) t WHERE t.live)
    ) THEN
        observations := ARRAY(SELECT format('o%s-%s', p_scope, k) FROM unnest(v_goes.seqs) k ORDER BY k);
        SELECT json_object_agg(e.what, e.counted) INTO counts
        FROM memory.erase(
            v_agent, v_goes.scope_ids, v_goes.seqs, v_goes.conversation_ids, v_goes.numbers, v_goes.evidence_ids,
            '{}', '{}', '{}', '{}', '{}', ARRAY[p_scope], '{}', '{}', '{}', p_receipt, p_at
        ) e;
        INSERT INTO memory.events (agent_key, kind, created_at, actor, reason, detail)
        SELECT v_agent, 'forget', p_at, p_actor, p_reason, jsonb_build_object(
            'id', p_receipt, 'target', p_target, 'observations', observations, 'counts', counts
        );
        PERFORM memory.refresh_due(v_agent, ARRAY[p_scope], p_threshold, p_at);
    END IF;
    PERFORM memory.leave(v_before);
END
$$;

COMMENT ON FUNCTION memory.forget_one IS 'Forgets an observation on which nothing else hangs; one row.';
