-- memory.is_verbatim(agent_key, conversation, number): whether a message is behind a decision, correction, principle or commitment of
-- which it is sure (confidence 0.8 or more), and which is still remembered: not evicted, nor withdrawn. One value.
CREATE OR REPLACE FUNCTION memory.is_verbatim(p_agent bigint, p_conversation text, p_number bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM memory.evidence e
        CROSS JOIN LATERAL (  -- each by its key, whatever the planner thinks of how many there are
            SELECT o.* FROM memory.observations o
            WHERE o.agent_key = p_agent AND o.scope_id = e.scope_id AND o.seq = e.seq OFFSET 0
        ) o
        WHERE e.agent_key = p_agent AND e.conversation_id = p_conversation AND e.number = p_number AND e.withdrawn_by IS NULL
          AND o.category IN ('decision', 'correction', 'principle', 'commitment') AND o.confidence >= 0.8
          AND o.standing NOT IN ('evicted', 'withdrawn')
    )
$$;

COMMENT ON FUNCTION memory.is_verbatim IS 'Whether a message is behind something that is to be known in its own words; one value.';
