CREATE OR REPLACE FUNCTION memory.correct_one(
    p_agent text, p_user text, p_conversation text, p_scope bigint, p_seq bigint, p_version integer, p_draft jsonb,
    p_threshold integer, p_actor text, p_reason text, p_at timestamptz
) RETURNS TABLE (
    observation memory.observations, scope_kind text, owner text, name text, status text, verification text,
    superseded_by integer, pending boolean, version integer, resolved text
)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_before text := memory.serve(p_agent);
    v_levels text[] := ARRAY['public', 'private', 'sensitive'];
    v_agent bigint;
    v_scope memory.scopes;
    v_read record;
    v_old memory.observations;
    v_hash bytea := memory.content_hash(p_scope, decode(p_draft ->> 'digest', 'hex'));
    v_new integer;
BEGIN
    SELECT s.* INTO v_scope FROM memory.scopes s WHERE s.scope_id = p_scope AND s.agent_key = (
        SELECT v.agent_key FROM memory.visible_scopes(p_agent, p_user, p_conversation) v WHERE v.scope_id = p_scope
    ) FOR NO KEY UPDATE;
    v_agent := v_scope.agent_key;
    SELECT l.* INTO v_read  -- again, now that it is locked
    FROM memory.listed(p_agent, p_user, p_conversation, p_scope, p_seq, 1, NULL, NULL, NULL) l WHERE l.status = 'active';
    v_old := v_read.observation;
    IF v_scope.is_active AND v_old.content <> p_draft ->> 'content' AND v_read.version = coalesce(p_version, v_read.version)
        AND v_read.superseded_by IS NULL AND NOT EXISTS (
            SELECT FROM memory.lineage l WHERE l.agent_key = v_agent AND l.scope_id = p_scope AND l.seq = p_seq
            UNION ALL
            SELECT FROM memory.lineage l WHERE l.agent_key = v_agent AND l.source_scope_id = p_scope AND l.source_seq = p_seq
            UNION ALL
            SELECT FROM memory.tainted_versions(v_agent, '{}', ARRAY[p_scope], ARRAY[v_old.seq]) t WHERE t.live
            UNION ALL
            SELECT FROM memory.observations o
            WHERE o.agent_key = v_agent AND o.scope_id = p_scope AND o.seq = v_scope.last_seq AND o.content_hash = v_hash
            UNION ALL
            SELECT FROM memory.observations o
            WHERE o.agent_key = v_agent AND o.scope_id = p_scope AND o.standing IN ('quarantined', 'given_up', 'withdrawn')
              AND o.content_hash = v_hash
        )
    THEN
        SELECT f.seq INTO STRICT v_new
        FROM memory.save_observations(v_agent, jsonb_build_array(jsonb_build_object(
            'owner', v_scope.owner, 'name', v_scope.name, 'conversation_id', v_old.conversation_id, 'subjects', v_old.subjects,
            'lane', v_old.lane, 'category', v_old.category, 'kind', v_old.kind, 'importance', v_old.importance,
            'classified_by', CASE WHEN v_old.classified_by IS NOT NULL THEN 0 END,
            'no_propagate', v_old.no_propagate, 'confidential', v_old.confidential, 'tags', v_old.tags,
            'metadata', v_old.metadata, 'fact_key', v_old.fact_key
        ) || p_draft || jsonb_build_object('sensitivity', v_levels[greatest(
            array_position(v_levels, v_old.sensitivity), array_position(v_levels, p_draft ->> 'sensitivity')
        )])), NULL, p_at, v_old.seq) f WHERE f.is_new;
        INSERT INTO memory.observation_states AS t (agent_key, scope_id, seq, status, status_at, superseded_by)
        VALUES (v_agent, p_scope, v_old.seq, 'superseded', p_at, v_new)
        ON CONFLICT (agent_key, scope_id, seq) DO UPDATE
        SET status = excluded.status, status_at = excluded.status_at, superseded_by = excluded.superseded_by;
        INSERT INTO memory.events (agent_key, kind, scope_id, seq, detail, actor, reason, created_at)
        SELECT v_agent, e.kind, p_scope, v_old.seq, e.detail, p_actor, p_reason, p_at
        FROM (VALUES
            ('correction', jsonb_build_object('by', format('o%s-%s', p_scope, v_new))),
            ('status', jsonb_build_object('from', 'active', 'to', 'superseded', 'by', v_new))
        ) AS e (kind, detail);
        UPDATE memory.scopes s  -- what a model was shown holds the old one
        SET fence = s.fence + 1, lease_until = NULL
        WHERE s.agent_key = v_agent AND s.scope_id = p_scope AND s.lease_until IS NOT NULL;
        PERFORM memory.refresh_due(v_agent, ARRAY[p_scope], p_threshold, p_at);
        RETURN QUERY SELECT o.* FROM memory.observation_as_read(v_agent, p_scope, v_new) o;
    END IF;
    PERFORM memory.leave(v_before);
END
$$;
COMMENT ON FUNCTION memory.correct_one IS 'A new observation in the place of another, where nothing has to follow; at most one row.';
