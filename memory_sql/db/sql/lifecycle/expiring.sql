-- memory.expiring(agent, defaults, at): what expires at a moment, of one agent or (null) of all: the moment may be any. One row per
-- observation, in no order: why, and since when it is due. `defaults` are settings by name (speculative_days, commitment_days,
-- time_zone), the agent's own go before them; days of 0 or null are never. Nothing is changed or locked.
--     speculative  it is in use, its confidence is below 0.4, and that many days after it was said and stored nobody has said it
--                  again or confirmed it; or its own moment (expires_at) has come. It is to be evicted. Never a commitment.
--     expired      it is in use, and its day (until) is over. It is to be archived as resolved. Not if that was taken back before.
--     resolved     it has been resolved for that many days. It is to be evicted.
-- At the very moment at which it is due a day is over, and the other two aren't due yet (C28). Of two, the one that was due first. Never what a legal hold covers, nor what is protected, nor what is set aside.
CREATE OR REPLACE FUNCTION memory.expiring(p_agent text, p_defaults jsonb, p_at timestamptz)
RETURNS TABLE (agent_key bigint, scope_id bigint, seq integer, why text, due_at timestamptz)
LANGUAGE sql STABLE AS $$
    WITH agents AS MATERIALIZED (
        SELECT a.agent_key,
               make_interval(secs => 86400 * nullif(memory.days_setting(a.settings, p_defaults, 'speculative_days'), 0)) AS speculative,
               make_interval(secs => 86400 * nullif(memory.days_setting(a.settings, p_defaults, 'commitment_days'), 0)) AS commitment,
               coalesce(CASE WHEN jsonb_typeof(a.settings -> 'time_zone') = 'string' THEN a.settings ->> 'time_zone' END,
                        p_defaults ->> 'time_zone') AS zone
        FROM memory.agents a WHERE p_agent IS NULL OR a.agent_id = p_agent
    ), due AS (
        SELECT o.agent_key, o.scope_id, o.seq, 'speculative' AS why, greatest(o.observed_at, o.created_at) + a.speculative AS due_at
        FROM agents a
        JOIN memory.observations o ON o.agent_key = a.agent_key
        LEFT JOIN memory.observation_states t ON t.agent_key = o.agent_key AND t.scope_id = o.scope_id AND t.seq = o.seq
        WHERE o.confidence < 0.4 AND o.standing = 'active' AND o.observed_at < p_at AND t.expires_at IS NULL
          AND o.category IS DISTINCT FROM 'commitment' AND t.policy IS DISTINCT FROM 'protected'
          AND t.verification IS DISTINCT FROM 'confirmed' AND NOT EXISTS (
              SELECT FROM memory.evidence e  -- the same message, read again, is no other word
              WHERE e.agent_key = o.agent_key AND e.scope_id = o.scope_id AND e.seq = o.seq AND e.created_at > o.created_at
                AND e.withdrawn_by IS NULL AND NOT EXISTS (
                    SELECT FROM memory.evidence f
                    WHERE f.agent_key = e.agent_key AND f.scope_id = e.scope_id AND f.seq = e.seq AND f.evidence_id < e.evidence_id
                      AND f.conversation_id = e.conversation_id AND f.number = e.number
                ) OFFSET 0
          )
        UNION ALL
        SELECT t.agent_key, t.scope_id, t.seq, 'speculative', t.expires_at
        FROM agents a
        JOIN memory.observation_states t ON t.agent_key = a.agent_key
        JOIN memory.observations o ON o.agent_key = t.agent_key AND o.scope_id = t.scope_id AND o.seq = t.seq
        WHERE t.expires_at <= p_at AND t.status = 'active' AND t.policy <> 'protected' AND o.category IS DISTINCT FROM 'commitment'
        UNION ALL
        SELECT o.agent_key, o.scope_id, o.seq, 'expired', greatest(memory.end_of_day(o.until, a.zone), o.created_at)
        FROM agents a
        JOIN memory.observations o ON o.agent_key = a.agent_key
        LEFT JOIN memory.observation_states t ON t.agent_key = o.agent_key AND t.scope_id = o.scope_id AND t.seq = o.seq
        WHERE o.until IS NOT NULL AND o.standing = 'active' AND o.until <= (p_at AT TIME ZONE 'UTC')::date + 1
          AND t.resolved_at IS NULL AND t.policy IS DISTINCT FROM 'protected'
        UNION ALL
        SELECT t.agent_key, t.scope_id, t.seq, 'resolved', t.resolved_at + a.commitment
        FROM agents a
        JOIN memory.observation_states t ON t.agent_key = a.agent_key
        WHERE t.resolved IS NOT NULL AND t.status = 'archived' AND t.resolved_at < p_at AND t.policy <> 'protected'
    )
    SELECT DISTINCT ON (d.agent_key, d.scope_id, d.seq) d.agent_key, d.scope_id, d.seq, d.why, d.due_at
    FROM due d
    WHERE (d.due_at < p_at OR d.due_at = p_at AND d.why = 'expired') AND NOT (
        EXISTS (SELECT FROM memory.holds h WHERE h.agent_key = d.agent_key AND h.released_at IS NULL)
        AND memory.is_held_observation(d.agent_key, d.scope_id, d.seq)
    )
    ORDER BY d.agent_key, d.scope_id, d.seq, d.due_at, d.why
$$;

COMMENT ON FUNCTION memory.expiring IS 'What expires at a moment, and why; one row per observation.';
