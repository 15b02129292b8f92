CREATE OR REPLACE FUNCTION memory.apply_formation(
    p_agent text, p_read jsonb, p_wanted jsonb, p_shown jsonb, p_drafts jsonb, p_threshold integer, p_limits jsonb,
    p_at timestamptz
) RETURNS TABLE (place integer, scope_id bigint, seq integer, outcome text, more boolean)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_before text := memory.serve(p_agent);
    v_read record;
    v_conversation memory.conversations;
    v_counts jsonb := p_read -> 'refused';
    v_stored integer := 0;
    v_known integer := 0;
    v_kept jsonb := '[]';
    v_ends_texts boolean;
BEGIN
    SELECT r.* INTO v_read
    FROM jsonb_to_record(p_read) AS r (
        agent bigint, conversation text, fence bigint, formed bigint, epoch integer, run bigint, run_fence bigint,
        up_to bigint, beside jsonb
    );
    SELECT memory.retention_start(a.settings, (p_limits ->> 'message_retention_days')::double precision, p_at) >= p_at
    INTO v_ends_texts
    FROM memory.agents a WHERE a.agent_key = v_read.agent;
    IF v_ends_texts THEN  -- memory.end_retention would pass over an agent that somebody has locked
        PERFORM FROM memory.agents a WHERE a.agent_key = v_read.agent FOR SHARE;
    END IF;
    IF v_read.beside IS NOT NULL THEN  -- in one order, as everywhere
        PERFORM FROM memory.conversations c
        WHERE c.agent_key = v_read.agent
          AND c.conversation_id = ANY (v_read.conversation || ARRAY(SELECT jsonb_object_keys(v_read.beside)))
        ORDER BY c.conversation_id
        FOR NO KEY UPDATE;
    END IF;
    SELECT c.* INTO v_conversation
    FROM memory.conversations c
    WHERE c.agent_key = v_read.agent AND c.conversation_id = v_read.conversation
      AND c.fence = v_read.fence
      AND c.formed_number = v_read.formed
      AND c.epoch = v_read.epoch
    FOR NO KEY UPDATE;
    IF NOT FOUND OR EXISTS (
        SELECT FROM jsonb_each_text(v_read.beside) b
        WHERE b.value::integer IS DISTINCT FROM (
            SELECT c.epoch FROM memory.conversations c WHERE c.agent_key = v_read.agent AND c.conversation_id = b.key
        )
    ) THEN
        outcome := 'moved';
    ELSIF NOT EXISTS (
        SELECT FROM memory.runs r
        WHERE r.agent_key = v_read.agent AND r.run_id = v_read.run AND r.fence = v_read.run_fence
          AND r.finished_at IS NULL
    ) THEN
        outcome := 'ended';
    ELSE
        more := v_conversation.last_number > v_read.up_to;
        FOR place, scope_id, seq, outcome IN
            SELECT f.*
            FROM memory.store_drafts(v_read.agent, p_wanted, p_shown, p_drafts, v_read.run, p_threshold, p_at) f
        LOOP
            EXIT WHEN outcome = 'stale';
            RETURN NEXT;
            v_stored := v_stored + (scope_id IS NOT NULL AND outcome <> 'known')::integer;
            v_known := v_known + (outcome = 'known')::integer;
            IF p_limits ? 'episodes' AND scope_id IS NOT NULL AND outcome <> 'known' THEN
                v_kept := v_kept || jsonb_build_array(jsonb_build_object(
                    'scope_id', scope_id, 'seq', seq, 'observed_at', p_drafts -> place -> 'observed_at',
                    'topics', coalesce(p_drafts -> place -> 'topics', '[]')
                ));
            END IF;
            IF scope_id IS NULL THEN
                v_counts := v_counts || jsonb_build_object(outcome, coalesce((v_counts ->> outcome)::integer, 0) + 1);
            END IF;
        END LOOP;
    END IF;
    IF outcome IN ('moved', 'ended', 'stale') AND place IS NULL THEN
        RETURN NEXT;
        PERFORM memory.leave(v_before);
        RETURN;
    END IF;
    IF v_kept <> '[]' THEN
        PERFORM memory.keep_episodes(v_read.agent, v_read.conversation, v_kept, p_limits -> 'episodes');
    END IF;
    PERFORM memory.advance_conversation(v_read.agent, v_read.conversation, v_read.fence, v_read.up_to, p_limits, p_at);
    IF v_ends_texts THEN  -- without waiting for the sweep
        PERFORM memory.end_retention(p_agent, v_read.conversation, 0, (p_limits ->> 'keep_verbatim')::boolean, p_at, 0, '', 0, 1, v_conversation.last_number);
    END IF;
    UPDATE memory.runs r
    SET state = CASE WHEN v_stored + v_known > 0 THEN 'succeeded' ELSE 'empty' END, answer = NULL, seen = '{}', finished_at = p_at,
        observations = v_stored, duplicates = v_known, refused = v_counts
    WHERE r.agent_key = v_read.agent AND r.run_id = v_read.run AND r.finished_at IS NULL;
    IF NOT FOUND THEN  -- by who holds no lock that is held here; again, and it is known
        RAISE EXCEPTION 'the run was ended meanwhile' USING ERRCODE = 'serialization_failure';
    END IF;
    IF v_conversation.dead_run_id IS NOT NULL THEN  -- what was given up with it has gone on all the same: a failure like any other
        UPDATE memory.runs r SET state = 'failed'
        WHERE r.agent_key = v_read.agent AND r.run_id = v_conversation.dead_run_id AND r.state = 'dead';
    END IF;
    IF place IS NULL THEN
        outcome := 'nothing';
        RETURN NEXT;
    END IF;
    PERFORM memory.leave(v_before);
END
$$;
COMMENT ON FUNCTION memory.apply_formation(text, jsonb, jsonb, jsonb, jsonb, integer, jsonb, timestamptz) IS
    'Stores what came of a formation, moves the cursor and ends the run; one row per draft.';
CREATE OR REPLACE FUNCTION memory.advance_conversation(
    p_agent bigint, p_conversation text, p_fence bigint, p_to bigint, p_limits jsonb, p_at timestamptz
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE memory.conversations c
    SET formed_number = p_to, unformed_messages = u.messages, unformed_tokens = u.tokens, unformed_since = u.since,
        due_at = CASE WHEN NOT c.excluded THEN d.due_at END,
        due_reason = CASE WHEN NOT c.excluded THEN d.due_reason END, waits_below = d.waits_below,
        lease_until = NULL, failures = 0, errors = 0, dead_run_id = NULL
    FROM memory.agents a
    CROSS JOIN LATERAL (
        SELECT count(*)::integer AS messages, coalesce(sum(m.weight), 0)::real AS tokens, min(m.created_at) AS since,
               coalesce(bool_or(m.signal IS NOT NULL), false) AS signalled
        FROM memory.messages m
        WHERE m.agent_key = p_agent AND m.conversation_id = p_conversation AND m.number > p_to AND m.eligible
          AND m.content IS NOT NULL
    ) u
    CROSS JOIN LATERAL memory.formation_due(
        u.messages, u.tokens, u.signalled, u.since, memory.settings_over(p_limits, a.settings), p_at
    ) d
    WHERE c.agent_key = p_agent AND c.conversation_id = p_conversation AND c.fence = p_fence AND a.agent_key = p_agent;
END
$$;
COMMENT ON FUNCTION memory.advance_conversation(bigint, text, bigint, bigint, jsonb, timestamptz) IS
    'Moves the cursor of a conversation, counts what is left and gives the lease back.';
