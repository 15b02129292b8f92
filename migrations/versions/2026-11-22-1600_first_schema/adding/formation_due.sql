CREATE OR REPLACE FUNCTION memory.formation_due(
    p_messages integer, p_tokens real, p_signalled boolean, p_since timestamptz, p_limits jsonb, p_at timestamptz,
    OUT due_at timestamptz, OUT due_reason text, OUT waits_below integer
)
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE  -- step by step: as one statement it costs six times as much
    v_silence interval := memory.number_setting(p_limits, 'formation_cold_minutes', 0) * interval '1 minute';
    v_step interval := least(v_silence / 4, interval '5 minutes');
    v_old_at timestamptz := p_since + memory.number_setting(p_limits, 'formation_max_age_minutes', 0) * interval '1 minute';
BEGIN
    waits_below := memory.number_setting(p_limits, 'formation_min_messages', 1)::integer;
    due_reason := CASE
        WHEN p_signalled AND p_messages > 0 THEN 'signal'
        WHEN p_messages >= memory.number_setting(p_limits, 'formation_messages', 1) THEN 'messages'
        WHEN p_messages < 1 THEN NULL
        WHEN p_messages < waits_below THEN 'rest'
        WHEN p_tokens >= memory.number_setting(p_limits, 'formation_tokens', 1) THEN 'tokens'
        ELSE 'cold'
    END;
    IF due_reason = 'rest' THEN
        v_silence := memory.number_setting(p_limits, 'formation_rest_minutes', 360, 1440) * interval '1 minute';
        v_step := least(v_silence / 4, interval '1 hour');
        v_old_at := p_since + interval '1 day';
    END IF;
    IF due_reason IN ('cold', 'rest') THEN
        due_at := p_at + v_silence;
        IF v_step > interval '0' THEN
            due_at := date_bin(v_step, due_at + v_step - interval '1 microsecond', timestamptz '2000-01-01 00:00Z');
        END IF;
        IF v_old_at < due_at THEN
            due_at := v_old_at;
            due_reason := CASE due_reason WHEN 'cold' THEN 'age' ELSE 'rest' END;
        END IF;
    ELSIF due_reason IS NOT NULL THEN
        due_at := p_at;
    END IF;
END
$$;
COMMENT ON FUNCTION memory.formation_due IS
    'From when a conversation is due, and why: signal, messages, tokens, age, cold or rest; null: it is not.';
