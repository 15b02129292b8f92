CREATE OR REPLACE FUNCTION memory.episodes_seen(
    p_agent text, p_user text, p_conversation text, p_spans datemultirange, p_since timestamptz, p_after bigint, p_only text,
    p_episode bigint, p_most bigint, p_days double precision, p_at timestamptz
) RETURNS TABLE (
    episode_id bigint, episode_conversation text, opened_at timestamptz, last_at timestamptz, sealed_at timestamptz,
    seal_reason text, topics text[], observations integer, trace_id bigint, trace_since timestamptz, goal text,
    scope_ids bigint[], seqs integer[]
)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    c_few CONSTANT integer := 200;
    v_agent bigint;
    v_scopes bigint[];
    v_conversations text[];
    v_latest text[];
    v_users text[];
    v_kept_since timestamptz;
    v_after record;
    v_left bigint := p_most;
    v_found record;
    v_before record;
    v_from timestamptz := CASE WHEN p_since IS NULL THEN '-infinity' ELSE least(p_since, lower(p_spans)::timestamp AT TIME ZONE 'UTC') END;
BEGIN
    SELECT max(v.agent_key), array_agg(v.scope_id) INTO v_agent, v_scopes FROM memory.visible_scopes(p_agent, p_user, p_conversation) v;
    IF v_agent IS NULL THEN
        RETURN;
    END IF;
    IF p_since IS NOT NULL AND p_only IS NULL THEN
        v_latest := ARRAY(
            SELECT e.conversation_id FROM memory.episodes e
            WHERE e.agent_key = v_agent AND e.last_at >= v_from ORDER BY e.last_at DESC LIMIT c_few + 1
        );
    END IF;
    IF cardinality(v_latest) <= c_few THEN
        v_users := ARRAY(SELECT i.user_id FROM memory.user_ids(v_agent, p_user) i);
        v_conversations := ARRAY(
            SELECT c.conversation_id
            FROM (SELECT DISTINCT l.conversation_id FROM unnest(v_latest) l(conversation_id)) l
            CROSS JOIN LATERAL (
                SELECT c.* FROM memory.conversations c WHERE c.agent_key = v_agent AND c.conversation_id = l.conversation_id LIMIT 1
            ) c
            WHERE CASE WHEN c.participants && v_users THEN memory.sees_conversation(p_agent, p_user, c.conversation_id) END
        );
    ELSE
        v_conversations := ARRAY(SELECT v.conversation_id FROM memory.visible_conversations(p_agent, p_user, NULL, p_only) v);
    END IF;
    SELECT memory.retention_start(a.settings, p_days, p_at) INTO v_kept_since FROM memory.agents a WHERE a.agent_key = v_agent;
    SELECT e.last_at, e.episode_id INTO v_after FROM memory.episodes e WHERE e.agent_key = v_agent AND e.episode_id = p_after;
    FOR v_found IN
        SELECT e.*, coalesce(datemultirange(daterange(
            (e.opened_at AT TIME ZONE 'UTC')::date, (e.last_at AT TIME ZONE 'UTC')::date, '[]'
        )) && p_spans, false) AS is_named
        FROM unnest(v_conversations) c(conversation_id)
        JOIN memory.episodes e ON e.agent_key = v_agent AND e.conversation_id = c.conversation_id
        WHERE e.opened_at <= p_at
          AND (p_episode IS NULL OR e.episode_id = p_episode)
          AND (p_after IS NULL OR (e.last_at, e.episode_id) < (v_after.last_at, v_after.episode_id))
          AND e.last_at >= v_from
          AND (p_since IS NULL OR e.sealed_at IS NOT NULL OR e.conversation_id IS DISTINCT FROM p_conversation)
          AND (p_since IS NULL OR e.last_at >= p_since OR coalesce(datemultirange(daterange(
              (e.opened_at AT TIME ZONE 'UTC')::date, (e.last_at AT TIME ZONE 'UTC')::date, '[]'
          )) && p_spans, false))
        ORDER BY is_named DESC, e.last_at DESC, e.episode_id DESC
    LOOP
        EXIT WHEN v_left <= 0;
        SELECT array_agg(m.scope_id), array_agg(m.seq), memory.best_topics(jsonb_agg(to_jsonb(m.topics))), count(*)
        INTO scope_ids, seqs, topics, observations
        FROM memory.episode_members(v_agent, v_found.episode_id) m
        WHERE m.scope_id = ANY (v_scopes);
        CONTINUE WHEN observations = 0;
        v_left := v_left - 1;
        episode_id := v_found.episode_id;
        episode_conversation := v_found.conversation_id;
        opened_at := v_found.opened_at;
        last_at := v_found.last_at;
        sealed_at := v_found.sealed_at;
        seal_reason := v_found.seal_reason;
        trace_id := v_found.trace_id;
        trace_since := NULL;
        FOR v_before IN
            SELECT b.episode_id, b.conversation_id, b.opened_at
            FROM memory.episodes b
            WHERE b.agent_key = v_agent AND b.trace_id = v_found.trace_id AND b.episode_id < v_found.episode_id
            ORDER BY b.opened_at
        LOOP
            IF (v_before.conversation_id = ANY (v_conversations)
                    OR v_users IS NOT NULL AND memory.sees_conversation(p_agent, p_user, v_before.conversation_id))
                AND EXISTS (SELECT FROM memory.episode_members(v_agent, v_before.episode_id) m WHERE m.scope_id = ANY (v_scopes))
            THEN
                trace_since := v_before.opened_at;
                EXIT;
            END IF;
        END LOOP;
        SELECT left(m.content, 100) INTO goal
        FROM (
            SELECT DISTINCT e.number
            FROM unnest(scope_ids, seqs) k(scope_id, seq)
            JOIN memory.evidence e ON e.agent_key = v_agent AND e.scope_id = k.scope_id AND e.seq = k.seq
                AND e.conversation_id = v_found.conversation_id AND e.withdrawn_by IS NULL
        ) n
        CROSS JOIN LATERAL (
            SELECT m.* FROM memory.messages_since(v_agent, v_found.conversation_id, v_kept_since, NULL) m
            WHERE m.number = n.number AND m.role = 'user' OFFSET 0
        ) m
        ORDER BY n.number
        LIMIT 1;
        RETURN NEXT;
    END LOOP;
END
$$;
REVOKE EXECUTE ON FUNCTION memory.episodes_seen FROM PUBLIC;
COMMENT ON FUNCTION memory.episodes_seen IS 'The episodes that a user of an agent may see, newest first; one row each.';
