CREATE OR REPLACE FUNCTION memory.absorb(
    p_agent bigint, p_scope bigint, p_fence bigint, p_version integer, p_epoch integer, p_from integer, p_to integer,
    p_inputs integer[], p_suspects integer, p_interval interval, p_threshold integer, p_at timestamptz
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE v_waits boolean;
BEGIN
    PERFORM FROM memory.scopes s
    WHERE s.agent_key = p_agent AND s.scope_id = p_scope AND s.fence = p_fence AND s.version = p_version AND s.epoch = p_epoch
    FOR NO KEY UPDATE;
    IF NOT FOUND THEN RETURN NULL; END IF;
    INSERT INTO memory.observation_states (agent_key, scope_id, seq, repend, status_at)
    SELECT p_agent, p_scope, o.seq, true, p_at FROM memory.observations o
    WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.seq > p_from AND o.seq <= p_to AND o.lane = 'absorb'
      AND o.seq NOT IN (SELECT unnest(p_inputs))
    ON CONFLICT (agent_key, scope_id, seq) DO UPDATE SET repend = true;
    UPDATE memory.observation_states t SET repend = false
    WHERE t.agent_key = p_agent AND t.scope_id = p_scope AND t.seq = ANY (p_inputs) AND t.repend;
    v_waits := EXISTS (SELECT FROM memory.pending_observations(p_agent, p_scope, p_to));
    UPDATE memory.scopes s
    SET version = s.version + 1, done_seq = p_to, consolidated_at = p_at, lease_until = NULL, failures = 0, errors = 0,
        suspects = p_suspects, due_at = CASE WHEN v_waits THEN s.due_at END, rebuild = s.rebuild AND v_waits,
        propagate_at = CASE WHEN s.kind IN ('individual', 'group') THEN
            coalesce(s.propagate_at, greatest(p_at, s.propagated_at + p_interval)) END
    WHERE s.agent_key = p_agent AND s.scope_id = p_scope;
    IF v_waits THEN PERFORM memory.refresh_due(p_agent, ARRAY[p_scope], p_threshold, p_at); END IF;
    RETURN v_waits;
END
$$;
COMMENT ON FUNCTION memory.absorb IS 'Moves a scope to the next version of its text; says whether anything waits.';
