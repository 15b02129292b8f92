CREATE OR REPLACE FUNCTION memory.formation_due(
    p_messages integer, p_tokens real, p_signalled boolean, p_since timestamptz, p_limits jsonb, p_at timestamptz,
    OUT due_at timestamptz, OUT due_reason text, OUT waits_below integer
)
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    SELECT
        CASE WHEN r.reason = 'cold' THEN least(r.cold_at, r.old_at) WHEN r.reason IS NOT NULL THEN p_at END,
        CASE WHEN r.reason = 'cold' AND r.old_at < r.cold_at THEN 'age' ELSE r.reason END,
        r.least
    INTO due_at, due_reason, waits_below
    FROM (
        SELECT
            l.least,
            CASE WHEN c.step > interval '0' THEN date_bin(
                c.step, p_at + c.silence + c.step - interval '1 microsecond', timestamptz '2000-01-01 00:00Z'
            ) ELSE p_at + c.silence END AS cold_at,
            p_since + memory.number_setting(p_limits, 'formation_max_age_minutes', 0) * interval '1 minute' AS old_at,
            CASE
                WHEN p_signalled AND p_messages > 0 THEN 'signal'
                WHEN p_messages >= memory.number_setting(p_limits, 'formation_messages', 1) THEN 'messages'
                WHEN p_messages < l.least THEN NULL
                WHEN p_tokens >= memory.number_setting(p_limits, 'formation_tokens', 1) THEN 'tokens'
                ELSE 'cold'
            END AS reason
        FROM (SELECT memory.number_setting(p_limits, 'formation_min_messages', 1)::integer AS least) l
        CROSS JOIN (
            SELECT i.silence, least(i.silence / 4, interval '5 minutes') AS step
            FROM (
                SELECT memory.number_setting(p_limits, 'formation_cold_minutes', 0) * interval '1 minute' AS silence
            ) i
        ) c
    ) r;
END
$$;
COMMENT ON FUNCTION memory.formation_due IS
    'From when a conversation is due, and why: signal, messages, tokens, age or cold; null: it is not.';
