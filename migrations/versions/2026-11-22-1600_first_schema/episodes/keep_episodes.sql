CREATE OR REPLACE FUNCTION memory.keep_episodes(p_agent bigint, p_conversation text, p_stored jsonb, p_rules jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    c_gap CONSTANT interval := make_interval(secs => (p_rules ->> 'gap')::float8);
    v_stretch record;
    v_open memory.episodes;
    v_held integer;
    v_reason text;
BEGIN
    FOR v_stretch IN
        SELECT min(s.at) AS first, max(s.at) AS last, count(*)::integer AS many, jsonb_agg(s.one ORDER BY s.at, s.n) AS items,
               memory.best_topics(jsonb_agg(coalesce(s.one -> 'topics', '[]') ORDER BY s.at, s.n)) AS topics
        FROM (
            SELECT s.*, sum(s.begins) OVER (ORDER BY s.at, s.n) AS stretch
            FROM (
                SELECT s.*, coalesce(s.at - lag(s.at) OVER (ORDER BY s.at, s.n) >= c_gap, false)::integer AS begins
                FROM (
                    SELECT s.value AS one, s.n, (s.value ->> 'observed_at')::timestamptz AS at
                    FROM jsonb_array_elements(p_stored) WITH ORDINALITY s(value, n)
                ) s
            ) s
        ) s
        GROUP BY s.stretch
        ORDER BY 1
    LOOP
        v_reason := NULL;
        SELECT e.* INTO v_open
        FROM memory.episodes e
        WHERE e.agent_key = p_agent AND e.conversation_id = p_conversation AND e.sealed_at IS NULL
        FOR NO KEY UPDATE;
        IF FOUND THEN
            SELECT count(*) INTO v_held
            FROM memory.observation_episodes n WHERE n.agent_key = p_agent AND n.episode_id = v_open.episode_id;
            v_reason := memory.seal_reason(
                memory.episode_topics(p_agent, v_open.episode_id), v_held, v_open.last_at, v_stretch.topics, v_stretch.many,
                v_stretch.first, p_rules
            );
            IF v_reason IN ('topic_shift', 'time_gap') THEN
                PERFORM memory.seal_episode(
                    p_agent, v_open.episode_id, v_reason, least(v_open.last_at + c_gap, v_stretch.first), p_rules
                );
                v_open := NULL;
            END IF;
        END IF;
        IF v_open.episode_id IS NULL THEN
            INSERT INTO memory.episodes (agent_key, conversation_id, opened_at, last_at)
            VALUES (p_agent, p_conversation, v_stretch.first, v_stretch.last)
            RETURNING * INTO v_open;
            v_reason := CASE WHEN v_stretch.many > (p_rules ->> 'most')::integer THEN 'max_memories' END;
        ELSE
            UPDATE memory.episodes e
            SET opened_at = least(e.opened_at, v_stretch.first), last_at = greatest(e.last_at, v_stretch.last)
            WHERE e.agent_key = p_agent AND e.episode_id = v_open.episode_id;
        END IF;
        INSERT INTO memory.observation_episodes (agent_key, scope_id, seq, episode_id, topics)
        SELECT p_agent, s.scope_id, s.seq, v_open.episode_id, coalesce(s.topics, '{}')
        FROM jsonb_to_recordset(v_stretch.items) AS s (scope_id bigint, seq integer, topics text[])
        ON CONFLICT DO NOTHING;
        IF v_reason = 'max_memories' THEN
            PERFORM memory.seal_episode(p_agent, v_open.episode_id, v_reason, v_stretch.last, p_rules);
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION memory.keep_episodes IS 'Puts what a formation has stored into the episodes of its conversation.';
CREATE OR REPLACE FUNCTION memory.seal_episode(
    p_agent bigint, p_episode bigint, p_reason text, p_at timestamptz, p_rules jsonb
) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE memory.episodes e
    SET sealed_at = greatest(p_at, e.last_at), seal_reason = p_reason, trace_id = coalesce((
        SELECT t.trace_id
        FROM (
            SELECT p.trace_id, max(p.sealed_at) AS sealed_at,
                   memory.jaccard(memory.episode_topics(p_agent, p_episode), array_agg(DISTINCT u.topic)) AS likeness
            FROM memory.conversations c
            JOIN memory.conversations w ON memory.user_tokens(w.agent_key, w.participants) && memory.user_tokens(c.agent_key, c.participants)
                AND w.agent_key IS NOT DISTINCT FROM c.agent_key
                AND w.participants @> c.participants AND w.participants <@ c.participants
                AND w.group_ids @> c.group_ids AND w.group_ids <@ c.group_ids AND NOT w.excluded
            JOIN memory.episodes p ON p.agent_key = w.agent_key AND p.conversation_id = w.conversation_id
                AND p.last_at <= p_at AND p.last_at >= p_at - make_interval(days => (p_rules ->> 'trace_days')::integer + 1)
                AND p.sealed_at BETWEEN p_at - make_interval(days => (p_rules ->> 'trace_days')::integer) AND p_at
                AND p.episode_id < p_episode
            CROSS JOIN LATERAL unnest(memory.episode_topics(p.agent_key, p.episode_id)) u(topic)
            WHERE c.agent_key = p_agent AND c.conversation_id = e.conversation_id
            GROUP BY p.trace_id
        ) t
        WHERE t.likeness >= (p_rules ->> 'trace')::float8
        ORDER BY t.likeness DESC, t.sealed_at DESC, t.trace_id DESC
        LIMIT 1
    ), e.episode_id)
    WHERE e.agent_key = p_agent AND e.episode_id = p_episode AND e.sealed_at IS NULL;
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION memory.seal_episode IS 'Ends an open episode; whether it was open.';
CREATE OR REPLACE FUNCTION memory.seal_idle(p_agent text, p_rules jsonb, p_most integer, p_at timestamptz) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    c_gap CONSTANT interval := make_interval(secs => (p_rules ->> 'gap')::float8);
    v_idle record;
    v_sealed integer := 0;
BEGIN
    FOR v_idle IN
        SELECT e.agent_key, e.episode_id, e.conversation_id, e.last_at
        FROM memory.episodes e
        JOIN memory.agents a ON a.agent_key = e.agent_key AND (p_agent IS NULL OR a.agent_id = p_agent)
        JOIN memory.conversations c ON c.agent_key = e.agent_key AND c.conversation_id = e.conversation_id
        WHERE e.sealed_at IS NULL AND e.last_at <= p_at - c_gap
          AND NOT EXISTS (SELECT FROM memory.moved_agents v WHERE v.moved_key = e.agent_key)
          AND (c.excluded OR c.unformed_messages = 0 AND c.last_activity_at <= p_at - c_gap)
        ORDER BY e.last_at, e.episode_id
        LIMIT p_most
    LOOP
        PERFORM FROM memory.conversations c
        WHERE c.agent_key = v_idle.agent_key AND c.conversation_id = v_idle.conversation_id
          AND (c.excluded OR c.unformed_messages = 0 AND c.last_activity_at <= p_at - c_gap)
        FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        PERFORM FROM memory.episodes e
        WHERE e.agent_key = v_idle.agent_key AND e.episode_id = v_idle.episode_id AND e.sealed_at IS NULL
          AND e.last_at = v_idle.last_at;
        CONTINUE WHEN NOT FOUND;
        v_sealed := v_sealed + memory.seal_episode(
            v_idle.agent_key, v_idle.episode_id, 'time_gap', v_idle.last_at + c_gap, p_rules
        )::integer;
    END LOOP;
    RETURN v_sealed;
END
$$;
COMMENT ON FUNCTION memory.seal_idle IS 'Ends open episodes in which nothing has been said for a while; how many.';
CREATE OR REPLACE FUNCTION memory.rejoin_episodes(p_agent bigint, p_conversation text, p_stored jsonb, p_rules jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_one record;
    v_episode bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM memory.episodes e WHERE e.agent_key = p_agent AND e.conversation_id = p_conversation) THEN
        PERFORM memory.keep_episodes(p_agent, p_conversation, p_stored, p_rules);
        RETURN;
    END IF;
    FOR v_one IN
        SELECT s.* FROM jsonb_to_recordset(p_stored) AS s (scope_id bigint, seq integer, observed_at timestamptz, topics text[])
    LOOP
        SELECT e.episode_id INTO v_episode
        FROM memory.episodes e
        WHERE e.agent_key = p_agent AND e.conversation_id = p_conversation
        ORDER BY greatest(e.opened_at - v_one.observed_at, v_one.observed_at - e.last_at, '0'), e.episode_id DESC
        LIMIT 1
        FOR NO KEY UPDATE;
        UPDATE memory.episodes e
        SET opened_at = least(e.opened_at, v_one.observed_at), last_at = greatest(e.last_at, v_one.observed_at),
            sealed_at = CASE WHEN e.sealed_at IS NOT NULL THEN greatest(e.sealed_at, v_one.observed_at) END
        WHERE e.agent_key = p_agent AND e.episode_id = v_episode AND v_one.observed_at NOT BETWEEN e.opened_at AND e.last_at;
        INSERT INTO memory.observation_episodes (agent_key, scope_id, seq, episode_id, topics)
        VALUES (p_agent, v_one.scope_id, v_one.seq, v_episode, coalesce(v_one.topics, '{}'))
        ON CONFLICT DO NOTHING;
    END LOOP;
END
$$;
COMMENT ON FUNCTION memory.rejoin_episodes IS 'Puts what was formed again into the episodes in which it was said.';
CREATE OR REPLACE FUNCTION memory.follow_correction() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF memory.is_copying() THEN
        RETURN NULL;
    END IF;
    INSERT INTO memory.observation_episodes (agent_key, scope_id, seq, episode_id, topics)
    SELECT n.agent_key, n.scope_id, b.seq, n.episode_id, memory.topics_said(b, n.topics)
    FROM memory.observation_episodes n
    JOIN memory.observations b ON b.agent_key = n.agent_key AND b.scope_id = n.scope_id
        AND format('o%s-%s', b.scope_id, b.seq) = NEW.detail ->> 'by'
    WHERE n.agent_key = NEW.agent_key AND n.scope_id = NEW.scope_id AND n.seq = NEW.seq
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION memory.follow_correction IS 'Puts a correction into the episode of what it corrects.';
CREATE OR REPLACE TRIGGER events_follow_corrections AFTER INSERT ON memory.events
FOR EACH ROW WHEN (NEW.kind = 'correction') EXECUTE FUNCTION memory.follow_correction();
CREATE OR REPLACE FUNCTION memory.drop_empty_episode() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
BEGIN
    PERFORM FROM memory.episodes e WHERE e.agent_key = OLD.agent_key AND e.episode_id = OLD.episode_id FOR UPDATE;
    IF FOUND THEN
        DELETE FROM memory.episodes e
        WHERE e.agent_key = OLD.agent_key AND e.episode_id = OLD.episode_id AND NOT EXISTS (
            SELECT FROM memory.observation_episodes n WHERE n.agent_key = OLD.agent_key AND n.episode_id = OLD.episode_id
        );
    END IF;
    RETURN NULL;
END
$$;
REVOKE EXECUTE ON FUNCTION memory.drop_empty_episode FROM PUBLIC;
COMMENT ON FUNCTION memory.drop_empty_episode IS 'Deletes an episode that has lost its last observation.';
CREATE OR REPLACE TRIGGER observation_episodes_are_left AFTER DELETE ON memory.observation_episodes
FOR EACH ROW EXECUTE FUNCTION memory.drop_empty_episode();
