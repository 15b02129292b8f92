CREATE OR REPLACE FUNCTION memory.expires(
    p_agent bigint, p_scope bigint, p_seq integer, p_speculative interval, p_commitment interval, p_zone text, p_at timestamptz
)
RETURNS TABLE (why text, due_at timestamptz)
LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT d.why, d.due_at
    FROM (  -- here and below: by its key, whatever the planner thinks of how many there are
        SELECT o.* FROM memory.observations o WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.seq = p_seq LIMIT 1
    ) o
    LEFT JOIN LATERAL (
        SELECT t.* FROM memory.observation_states t WHERE t.agent_key = p_agent AND t.scope_id = p_scope AND t.seq = p_seq LIMIT 1
    ) t ON true
    CROSS JOIN LATERAL (
        SELECT 'speculative' AS why, greatest(o.observed_at, o.created_at) + p_speculative AS due_at
        WHERE o.confidence < 0.4 AND o.standing = 'active' AND o.observed_at < p_at AND t.expires_at IS NULL
          AND o.category IS DISTINCT FROM 'commitment' AND t.verification IS DISTINCT FROM 'confirmed'
          AND greatest(o.observed_at, o.created_at) + p_speculative <= p_at AND NOT EXISTS (
              SELECT FROM memory.evidence e  -- the same message, read again, is no other word
              WHERE e.agent_key = p_agent AND e.scope_id = p_scope AND e.seq = p_seq AND e.created_at > o.created_at
                AND e.withdrawn_by IS NULL AND NOT EXISTS (
                    SELECT FROM memory.evidence f
                    WHERE f.agent_key = p_agent AND f.scope_id = p_scope AND f.seq = p_seq AND f.evidence_id < e.evidence_id
                      AND f.conversation_id = e.conversation_id AND f.number = e.number
                    OFFSET 0
                )
              OFFSET 0
          )
        UNION ALL
        SELECT 'speculative', t.expires_at
        WHERE t.expires_at <= p_at AND t.status = 'active' AND o.category IS DISTINCT FROM 'commitment'
        UNION ALL
        SELECT 'expired', greatest(memory.end_of_day(o.until, p_zone), o.created_at)
        WHERE o.standing = 'active' AND o.until <= (p_at AT TIME ZONE 'UTC')::date + 1 AND t.resolved_at IS NULL
        UNION ALL
        SELECT 'resolved', t.resolved_at + p_commitment
        WHERE t.resolved IS NOT NULL AND t.status = 'archived' AND t.resolved_at < p_at
    ) d
    WHERE (d.due_at < p_at OR d.due_at = p_at AND d.why = 'expired') AND t.policy IS DISTINCT FROM 'protected'
    ORDER BY d.due_at, d.why
    LIMIT 1
$$;
COMMENT ON FUNCTION memory.expires IS 'Why an observation expires at a moment, and since when; none or one row.';
CREATE OR REPLACE FUNCTION memory.expiry_rules(p_agent bigint, p_defaults jsonb)
RETURNS TABLE (speculative interval, commitment interval, zone text)
LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT make_interval(secs => 86400 * nullif(memory.days_setting(a.settings, p_defaults, 'speculative_days'), 0)),
           make_interval(secs => 86400 * nullif(memory.days_setting(a.settings, p_defaults, 'commitment_days'), 0)),
           coalesce(CASE WHEN jsonb_typeof(a.settings -> 'time_zone') = 'string' THEN a.settings ->> 'time_zone' END, p_defaults ->> 'time_zone')
    FROM memory.agents a WHERE a.agent_key = p_agent
$$;
COMMENT ON FUNCTION memory.expiry_rules IS 'How long guesses and what is resolved have with an agent; one row.';
CREATE OR REPLACE FUNCTION memory.expiring_of(
    p_agents bigint[], p_scopes bigint[], p_seqs integer[], p_defaults jsonb, p_at timestamptz
)
RETURNS TABLE (place bigint, agent_key bigint, scope_id bigint, seq integer, why text, due_at timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT d.*
    FROM (
        SELECT k.place, k.agent_key, k.scope_id, k.seq, e.why, e.due_at
        FROM unnest(p_agents, p_scopes, p_seqs) WITH ORDINALITY k(agent_key, scope_id, seq, place)
        CROSS JOIN LATERAL (SELECT r.* FROM memory.expiry_rules(k.agent_key, p_defaults) r OFFSET 0) r
        CROSS JOIN LATERAL memory.expires(k.agent_key, k.scope_id, k.seq, r.speculative, r.commitment, r.zone, p_at) e
        ORDER BY k.place  -- as they come, so that a limit ends it
        OFFSET 0  -- only of these is asked whether they are held
    ) d
    WHERE NOT memory.is_kept_as_it_is(d.agent_key, d.scope_id, d.seq)
$$;
COMMENT ON FUNCTION memory.expiring_of IS 'Which of these observations expire at a moment, and why; one row each.';
CREATE OR REPLACE FUNCTION memory.expiring(p_agent text, p_defaults jsonb, p_at timestamptz)
RETURNS TABLE (agent_key bigint, scope_id bigint, seq integer, why text, due_at timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT d.*
    FROM (
        SELECT k.agent_key, k.scope_id, k.seq, e.why, e.due_at
        FROM memory.agents a
        CROSS JOIN LATERAL (SELECT r.* FROM memory.expiry_rules(a.agent_key, p_defaults) r OFFSET 0) r
        CROSS JOIN LATERAL (
            SELECT o.agent_key, o.scope_id, o.seq
            FROM memory.observations o
            WHERE o.agent_key = a.agent_key AND o.standing = 'active' AND (o.confidence < 0.4 OR o.until IS NOT NULL)
            UNION
            SELECT t.agent_key, t.scope_id, t.seq
            FROM memory.observation_states t
            WHERE t.agent_key = a.agent_key
              AND (t.expires_at IS NOT NULL AND t.status = 'active' OR t.resolved IS NOT NULL AND t.status = 'archived')
        ) k
        CROSS JOIN LATERAL memory.expires(k.agent_key, k.scope_id, k.seq, r.speculative, r.commitment, r.zone, p_at) e
        WHERE p_agent IS NULL OR a.agent_id = p_agent
        OFFSET 0
    ) d
    WHERE NOT memory.is_kept_as_it_is(d.agent_key, d.scope_id, d.seq)
$$;
COMMENT ON FUNCTION memory.expiring IS 'What expires at a moment, and why; one row per observation.';
