CREATE OR REPLACE FUNCTION memory.formation_due(
    p_messages integer, p_tokens real, p_signalled boolean, p_since timestamptz, p_limits jsonb, p_at timestamptz,
    OUT due_at timestamptz, OUT due_reason text
)
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
    SELECT
        CASE WHEN r.reason = 'cold' THEN least(r.cold_at, r.old_at) WHEN r.reason IS NOT NULL THEN p_at END,
        CASE WHEN r.reason = 'cold' AND r.old_at < r.cold_at THEN 'age' ELSE r.reason END
    INTO due_at, due_reason
    FROM (
        SELECT
            p_at + memory.number_setting(p_limits, 'formation_cold_minutes', 0) * interval '1 minute' AS cold_at,
            p_since + memory.number_setting(p_limits, 'formation_max_age_minutes', 0) * interval '1 minute' AS old_at,
            CASE
                WHEN p_signalled AND p_messages > 0 THEN 'signal'
                WHEN p_messages >= memory.number_setting(p_limits, 'formation_messages', 1) THEN 'messages'
                WHEN p_messages < memory.number_setting(p_limits, 'formation_min_messages', 1) THEN NULL
                WHEN p_tokens >= memory.number_setting(p_limits, 'formation_tokens', 1) THEN 'tokens'
                ELSE 'cold'
            END AS reason
    ) r;
END
$$;
COMMENT ON FUNCTION memory.formation_due IS
    'From when a conversation is due, and why: signal, messages, tokens, age or cold; null: it is not.';
