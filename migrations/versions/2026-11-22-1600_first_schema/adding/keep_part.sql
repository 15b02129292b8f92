CREATE OR REPLACE FUNCTION memory.keep_part(
    p_agent bigint, p_scope bigint, p_seq integer, p_newer integer, p_draft jsonb, p_at timestamptz
) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_levels text[] := ARRAY['public', 'private', 'sensitive'];
    v_old memory.observations;
    v_state memory.observation_states;
    v_draft jsonb;
    v_new integer;
BEGIN
    SELECT o.* INTO v_old FROM memory.observations o WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.seq = p_seq;
    SELECT t.* INTO v_state FROM memory.observation_states t
    WHERE t.agent_key = p_agent AND t.scope_id = p_scope AND t.seq = p_seq;
    IF v_old.source_kind IS NULL OR v_old.source_kind = 'propagation' OR NOT (
        memory.in_use(v_state.status) OR v_state.status = 'superseded' AND v_state.superseded_by = p_newer
    ) THEN
        RETURN NULL;
    END IF;
    SELECT to_jsonb(v_old) || jsonb_build_object('owner', s.owner, 'name', s.name) INTO v_draft
    FROM memory.scopes s WHERE s.agent_key = p_agent AND s.scope_id = p_scope;
    v_draft := v_draft || jsonb_build_object(
        'place', 0, 'part_of', p_seq, 'fact_key', NULL, 'terms', '', 'until', NULL,
        'classified_by', CASE WHEN v_old.classified_by IS NOT NULL THEN 0 END,  -- by another text
        'sensitivity', v_levels[greatest(
            array_position(v_levels, v_old.sensitivity), array_position(v_levels, p_draft ->> 'sensitivity')
        )],
        'categories', CASE WHEN v_old.categories IS NOT NULL THEN to_jsonb(v_old.categories || ARRAY(
            SELECT c FROM jsonb_array_elements_text(p_draft -> 'categories') c WHERE c <> ALL (v_old.categories)
        )) END
    ) || (p_draft - '{sensitivity,categories}'::text[]);
    SELECT f.seq INTO v_new FROM memory.save_observations(p_agent, jsonb_build_array(v_draft), v_old.run_id, p_at, NULL) f
    WHERE f.is_new;
    IF v_new IS NULL THEN RETURN NULL; END IF;
    INSERT INTO memory.evidence (agent_key, scope_id, seq, conversation_id, number, user_id, run_id, created_at)
    SELECT p_agent, p_scope, v_new, e.conversation_id, e.number, e.user_id, e.run_id, p_at
    FROM memory.evidence e
    WHERE e.agent_key = p_agent AND e.scope_id = p_scope AND e.seq = p_seq AND e.withdrawn_by IS NULL AND e.repeated_seq IS NULL;
    INSERT INTO memory.observation_states (agent_key, scope_id, seq, verification, status_at)
    SELECT p_agent, p_scope, v_new, v_state.verification, p_at WHERE v_state.verification = 'disputed';
    RETURN v_new;
END
$$;
COMMENT ON FUNCTION memory.keep_part IS 'What still holds of an observation that was overtaken, as one of its own; its number.';
