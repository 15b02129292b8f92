CREATE OR REPLACE FUNCTION memory.replace_messages(
    p_agent bigint, p_conversation text, p_messages jsonb, p_limits jsonb, p_at timestamptz
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_settings jsonb := (SELECT memory.settings_over(p_limits, a.settings) FROM memory.agents a WHERE a.agent_key = p_agent);
    v_after bigint;
BEGIN
    SELECT min(r.from_number) INTO v_after
    FROM jsonb_to_recordset(p_messages) AS g (number bigint, eligible boolean)
    JOIN memory.runs r ON r.agent_key = p_agent AND r.conversation_id = p_conversation
     AND r.from_number < g.number AND r.to_number >= g.number
    WHERE g.eligible AND r.kind = 'formation' AND r.state IN ('succeeded', 'empty', 'discarded');
    UPDATE memory.runs r SET state = 'retired', error_code = NULL, error = NULL
    WHERE r.agent_key = p_agent AND r.conversation_id = p_conversation AND r.from_number >= v_after
      AND r.kind = 'formation' AND r.state IN ('succeeded', 'empty', 'discarded');
    UPDATE memory.messages m
    SET content = g.content, content_hash = NULL, speaker = g.speaker, cleaned = g.cleaned, weight = g.weight, eligible = g.eligible,
        search_extra = coalesce(g.search_extra, ''), signal = CASE WHEN g.eligible THEN coalesce(g.signal, CASE
            WHEN m.role = 'user' AND memory.says_any(g.content, nullif(v_settings -> 'formation_phrases', '[]')) THEN 'own phrase'
        END) END
    FROM jsonb_to_recordset(p_messages) AS g (
        number bigint, content text, speaker text, cleaned text[], weight real, eligible boolean, signal text, search_extra text
    )
    WHERE m.agent_key = p_agent AND m.conversation_id = p_conversation AND m.number = g.number AND g.content IS NOT NULL;
    UPDATE memory.conversations c
    SET formed_number = f.formed_number, epoch = c.epoch + 1, unformed_messages = u.messages, unformed_tokens = u.tokens,
        unformed_since = u.since, text_since = least(c.text_since, u.text_since),
        due_at = CASE WHEN NOT c.excluded AND c.dead_run_id IS NULL THEN d.due_at END,
        due_reason = CASE WHEN NOT c.excluded AND c.dead_run_id IS NULL THEN d.due_reason END, waits_below = d.waits_below
    FROM memory.conversations k
    CROSS JOIN LATERAL (SELECT least(k.formed_number, v_after) AS formed_number) f
    CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE n.waits)::integer AS messages, coalesce(sum(m.weight) FILTER (WHERE n.waits), 0)::real AS tokens,
               min(m.created_at) FILTER (WHERE n.waits) AS since, min(m.created_at) FILTER (WHERE n.is_new) AS text_since,
               coalesce(bool_or(m.signal IS NOT NULL) FILTER (WHERE n.waits), false) AS signalled
        FROM memory.messages m
        CROSS JOIN LATERAL (
            SELECT m.eligible AND m.content IS NOT NULL AND m.number > f.formed_number AS waits, EXISTS (
                SELECT FROM jsonb_to_recordset(p_messages) AS g (number bigint, content text)
                WHERE g.number = m.number AND g.content IS NOT NULL
            ) AS is_new
        ) n
        WHERE m.agent_key = p_agent AND m.conversation_id = p_conversation
    ) u
    CROSS JOIN LATERAL memory.formation_due(
        u.messages, u.tokens, u.signalled OR v_after IS NOT NULL, u.since, v_settings, p_at
    ) d
    WHERE k.agent_key = p_agent AND k.conversation_id = p_conversation
      AND c.agent_key = k.agent_key AND c.conversation_id = k.conversation_id;
    PERFORM pg_notify('memory_due', '') FROM memory.conversations c
    WHERE c.agent_key = p_agent AND c.conversation_id = p_conversation AND c.due_at <= p_at;
END
$$;
COMMENT ON FUNCTION memory.replace_messages IS 'Gives messages new texts, and has what was read of them read again.';
CREATE OR REPLACE FUNCTION memory.message_hash(p_agent bigint, p_number bigint, p_content text) RETURNS bytea
LANGUAGE sql STABLE AS $$
    SELECT memory.keyed_hash('message', int8send(p_agent) || int8send(p_number) || convert_to(p_content, 'UTF8'))
$$;
COMMENT ON FUNCTION memory.message_hash IS 'The hash by which a message is recognized after its text has gone.';
CREATE OR REPLACE FUNCTION memory.compared_messages(p_agent bigint, p_conversation text, p_messages jsonb)
RETURNS TABLE (
    place bigint, message_id text, number bigint, eligible boolean, differs boolean, is_forgotten boolean, is_others boolean,
    is_imported boolean
)
LANGUAGE sql STABLE AS $$
    SELECT g.n - 1, k.message_id, k.number, k.eligible, NOT f.is_forgotten AND (
               k.role <> g.role OR CASE
                   WHEN k.content IS NOT NULL THEN k.content <> g.content
                   ELSE k.content_hash <> memory.message_hash(p_agent, k.number, g.content)
               END
           ), f.is_forgotten, k.role <> g.role OR k.user_id IS DISTINCT FROM g.user_id, EXISTS (
               SELECT FROM memory.runs r
               WHERE r.agent_key = p_agent AND r.conversation_id = p_conversation AND r.to_number >= k.number AND r.kind = 'import'
           )
    FROM ROWS FROM (jsonb_to_recordset(p_messages) AS (
        id text, role text, user_id text, content text, keyed boolean, refused boolean
    )) WITH ORDINALITY AS g (id, role, user_id, content, keyed, refused, n)
    JOIN memory.messages k ON k.agent_key = p_agent AND k.conversation_id = p_conversation AND k.message_id = g.id
    CROSS JOIN LATERAL (
        SELECT k.withdrawn_by IS NOT NULL OR k.content IS NULL AND k.content_hash IS NULL AS is_forgotten
    ) f
    WHERE g.refused IS NOT TRUE AND NOT g.keyed
    ORDER BY g.n
$$;
COMMENT ON FUNCTION memory.compared_messages IS 'The messages of a call that are known, and whether they differ; one row per message.';
