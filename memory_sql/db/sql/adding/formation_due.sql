-- memory.formation_due(messages, tokens, signalled, since, limits, at): from when a conversation with that much unformed is due,
-- and why; both null: not at all. One row. The counts are of messages that formation reads, `since` is when the oldest of
-- them arrived, `at` when the newest did. `limits` are settings by name. Cold: after a silence. Age: a conversation that never
-- falls silent, when its oldest message is that old; whichever comes first. The end of a silence is told in steps (a quarter of
-- it, at most 5 minutes), rounded up: most messages then leave due_at as it is, and their conversation's row in its place (HOT).
-- waits_below: where it isn't due, with how many messages it would be.
CREATE OR REPLACE FUNCTION memory.formation_due(
    p_messages integer, p_tokens real, p_signalled boolean, p_since timestamptz, p_limits jsonb, p_at timestamptz,
    OUT due_at timestamptz, OUT due_reason text, OUT waits_below integer
)
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE  -- step by step: as one statement it costs six times as much
    v_silence interval := memory.number_setting(p_limits, 'formation_cold_minutes', 0) * interval '1 minute';
    v_step interval := least(v_silence / 4, interval '5 minutes');
    v_cold_at timestamptz := p_at + v_silence;
    v_old_at timestamptz := p_since + memory.number_setting(p_limits, 'formation_max_age_minutes', 0) * interval '1 minute';
BEGIN
    waits_below := memory.number_setting(p_limits, 'formation_min_messages', 1)::integer;
    due_reason := CASE
        WHEN p_signalled AND p_messages > 0 THEN 'signal'
        WHEN p_messages >= memory.number_setting(p_limits, 'formation_messages', 1) THEN 'messages'
        WHEN p_messages < waits_below THEN NULL
        WHEN p_tokens >= memory.number_setting(p_limits, 'formation_tokens', 1) THEN 'tokens'
        ELSE 'cold'
    END;
    IF due_reason = 'cold' THEN
        IF v_step > interval '0' THEN
            v_cold_at := date_bin(v_step, v_cold_at + v_step - interval '1 microsecond', timestamptz '2000-01-01 00:00Z');
        END IF;
        due_at := least(v_cold_at, v_old_at);
        due_reason := CASE WHEN v_old_at < v_cold_at THEN 'age' ELSE 'cold' END;
    ELSIF due_reason IS NOT NULL THEN
        due_at := p_at;
    END IF;
END
$$;

COMMENT ON FUNCTION memory.formation_due IS
    'From when a conversation is due, and why: signal, messages, tokens, age or cold; null: it is not.';
