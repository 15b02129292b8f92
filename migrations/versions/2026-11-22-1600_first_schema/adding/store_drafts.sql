CREATE OR REPLACE FUNCTION memory.store_drafts(
    p_agent bigint, p_wanted jsonb, p_shown jsonb, p_drafts jsonb, p_run bigint, p_threshold integer, p_at timestamptz
) RETURNS TABLE (place integer, scope_id bigint, seq integer, outcome text)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_drafts jsonb;
    v_saved jsonb;
BEGIN
    IF NOT memory.lock_scopes(p_agent, p_wanted, p_shown, p_at) THEN
        RETURN QUERY SELECT NULL::integer, NULL::bigint, NULL::integer, 'stale';
        RETURN;
    END IF;
    SELECT jsonb_agg(d.value || jsonb_build_object('outcome', CASE
        WHEN NOT s.is_active THEN 'inactive_scope'
        WHEN s.kind = 'group' AND p_run IS NOT NULL AND EXISTS (
            SELECT FROM jsonb_array_elements_text(d.value -> 'related_users') u
            WHERE NOT EXISTS (
                SELECT FROM memory.scopes g
                JOIN memory.members m ON m.agent_key = p_agent AND m.scope_id = g.scope_id AND m.left_at IS NULL
                JOIN memory.user_ids(p_agent, u) i ON i.user_id = m.user_id
                WHERE g.agent_key = p_agent AND g.owner = s.owner AND g.name = ''
            )
        ) THEN 'not_a_member'
    END))
    INTO v_drafts
    FROM jsonb_array_elements(p_drafts) d
    CROSS JOIN LATERAL (
        SELECT s.kind, s.owner, s.is_active
        FROM memory.scopes s
        WHERE s.agent_key = p_agent AND s.owner = d.value ->> 'owner' AND s.name = d.value ->> 'name' LIMIT 1
    ) s;
    SELECT jsonb_agg(to_jsonb(f)) INTO v_saved
    FROM memory.save_observations(
        p_agent, jsonb_path_query_array(v_drafts, '$[*] ? (@.outcome == null)'), p_run, p_at, NULL
    ) f;
    PERFORM memory.refresh_due(p_agent, array_agg(DISTINCT (f.value ->> 'scope_id')::bigint), p_threshold, p_at)
    FROM jsonb_array_elements(v_saved) f
    WHERE NOT jsonb_path_exists(p_drafts, '$[*] ? (@.fact_key != null)');
    IF jsonb_path_exists(p_drafts, '$[*].links') THEN
        PERFORM memory.save_links(p_agent, v_drafts, v_saved, p_at);
    END IF;
    RETURN QUERY
    SELECT d.place, f.scope_id, f.seq,
           coalesce(d.outcome, CASE WHEN f.is_new THEN coalesce(t.status, 'active') ELSE 'known' END)
    FROM jsonb_to_recordset(v_drafts) AS d (place integer, outcome text)
    LEFT JOIN jsonb_to_recordset(v_saved) AS f (place integer, scope_id bigint, seq integer, is_new boolean)
        ON f.place = d.place
    LEFT JOIN memory.observation_states t ON t.agent_key = p_agent AND t.scope_id = f.scope_id AND t.seq = f.seq
    ORDER BY d.place;
END
$$;
COMMENT ON FUNCTION memory.store_drafts(bigint, jsonb, jsonb, jsonb, bigint, integer, timestamptz) IS
    'Stores drafts as far as they may go where they are meant to go; one row per draft.';
CREATE OR REPLACE FUNCTION memory.lock_scopes(p_agent bigint, p_wanted jsonb, p_shown jsonb, p_at timestamptz) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_id bigint;
    v_found bigint[];
    v_ids bigint[];
    v_locked bigint[] := '{}';
    v_made boolean := false;
BEGIN
    LOOP  -- an owner may become another while a lock is waited for, and somebody else make what is missing
        v_found := ARRAY(
            SELECT f.scope_id
            FROM jsonb_to_recordset(p_wanted) AS w (owner text, name text)
            CROSS JOIN LATERAL (
                SELECT s.scope_id
                FROM memory.scopes s WHERE s.agent_key = p_agent AND s.owner = w.owner AND s.name = w.name LIMIT 1
            ) f
        );
        v_ids := v_found || ARRAY(SELECT k::bigint FROM jsonb_object_keys(p_shown) k);
        IF NOT v_ids <@ v_locked THEN
            FOREACH v_id IN ARRAY ARRAY(SELECT DISTINCT i FROM unnest(v_ids) i ORDER BY i) LOOP
                PERFORM FROM memory.scopes s WHERE s.agent_key = p_agent AND s.scope_id = v_id FOR NO KEY UPDATE;
            END LOOP;
            v_locked := v_ids;
        ELSIF NOT v_made AND EXISTS (
            SELECT FROM jsonb_each_text(p_shown) h
            WHERE h.value::integer IS DISTINCT FROM (
                SELECT s.epoch FROM memory.scopes s WHERE s.agent_key = p_agent AND s.scope_id = h.key::bigint
            )
        ) THEN
            RETURN false;
        ELSIF v_made OR cardinality(v_found) = jsonb_array_length(p_wanted) THEN
            RETURN true;
        ELSE
            INSERT INTO memory.scopes (
                agent_key, kind, owner, name, display_name, language, lanes, buffer_max, buffer_max_words, waits_below,
                created_at
            )
            SELECT p_agent, kind, owner, name, display_name, language, lanes, buffer_max, buffer_max_words, waits_below, p_at
            FROM jsonb_populate_recordset(NULL::memory.scopes, p_wanted) w
            WHERE (
                SELECT s.scope_id
                FROM memory.scopes s WHERE s.agent_key = p_agent AND s.owner = w.owner AND s.name = w.name
            ) IS NULL
            ORDER BY owner, name
            ON CONFLICT (agent_key, owner, name) DO NOTHING;
            v_made := true;
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION memory.lock_scopes(bigint, jsonb, jsonb, timestamptz) IS
    'Locks scopes in order and makes those that are missing; false: something that one of them held was forgotten.';
CREATE OR REPLACE FUNCTION memory.observe(
    p_agent text, p_conversation text, p_lane text, p_wanted jsonb, p_draft jsonb, p_known jsonb, p_threshold integer,
    p_at timestamptz,
    OUT agent_key bigint, OUT scope_id bigint, OUT seq integer, OUT outcome text, OUT lanes text, OUT is_known jsonb,
    OUT empty_group boolean
)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_before text := memory.serve(p_agent);
    v_zone text;
BEGIN
    SELECT a.agent_key, jsonb_build_object('settings', a.settings) INTO agent_key, is_known
    FROM memory.agents a WHERE a.agent_id = p_agent;
    SELECT c.time_zone INTO v_zone
    FROM memory.conversations c WHERE c.agent_key = observe.agent_key AND c.conversation_id = p_conversation;
    IF p_wanted @> '[{"kind": "conversation"}]' THEN
        PERFORM FROM memory.conversations c  -- it stays until this ends
        WHERE c.agent_key = observe.agent_key AND c.conversation_id = p_conversation FOR SHARE;
        outcome := CASE WHEN NOT FOUND THEN 'no_conversation' END;
    END IF;
    is_known := coalesce(is_known, '{"settings": {}}') || jsonb_build_object('time_zone', v_zone);
    SELECT s.scope_id, s.lanes INTO scope_id, lanes
    FROM memory.scopes s
    WHERE s.agent_key = observe.agent_key AND s.owner = p_wanted -> 0 ->> 'owner' AND s.name = p_wanted -> 0 ->> 'name';
    lanes := coalesce(lanes, p_wanted -> 0 ->> 'lanes');
    outcome := coalesce(outcome, CASE
        WHEN is_known <> p_known THEN 'differs' WHEN lanes NOT IN ('both', p_lane) THEN 'no_lane'
    END);
    IF outcome IS NULL THEN
        INSERT INTO memory.agents (agent_id, created_at)
        SELECT p_agent, p_at WHERE observe.agent_key IS NULL ON CONFLICT DO NOTHING;
        SELECT a.agent_key INTO STRICT agent_key FROM memory.agents a WHERE a.agent_id = p_agent;
        SELECT coalesce(f.scope_id, observe.scope_id), f.seq, f.outcome INTO STRICT scope_id, seq, outcome
        FROM memory.store_drafts(agent_key, p_wanted, '{}', jsonb_build_array(
            p_draft || jsonb_build_object('lane', CASE lanes WHEN 'both' THEN coalesce(p_lane, 'absorb') ELSE lanes END)
        ), NULL, p_threshold, p_at) f;
    END IF;
    empty_group := p_wanted @> '[{"kind": "group"}]' AND memory.is_empty_group(agent_key, p_wanted -> 0 ->> 'owner');
    PERFORM memory.leave(v_before);
END
$$;
COMMENT ON FUNCTION memory.observe(text, text, text, jsonb, jsonb, jsonb, integer, timestamptz) IS
    'Stores one observation as the host says it; one row.';
