-- memory.read_messages(agent, user, conversation, scope_id, seq, before, limit, days, at): the messages that a principal may read, newest
-- first. One row per message, of those of memory.messages_since. With a conversation, only its; with scope_id and seq, only
-- what that observation comes from, if they may see it (in that conversation), and what it was made of in scopes that they
-- may see. `before…` is the last one of the page before. It runs as its owner and asks who may see what itself: a row-level
-- policy would hide from whom somebody reads which observations of others are quarantined. Planned for each call, so that a
-- condition that isn't asked for isn't there.
CREATE OR REPLACE FUNCTION memory.read_messages(
    p_agent text, p_user text, p_conversation text, p_scope bigint, p_seq integer, p_before timestamptz,
    p_before_conversation text, p_before_number bigint, p_limit bigint, p_days double precision, p_at timestamptz
) RETURNS TABLE (
    conversation_id text, message_id text, number bigint, role text, speaker text, user_id text, content text,
    said_at timestamptz, given_at timestamptz
)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp SET jit = off
SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    v_conversations text[]; v_numbers bigint[];  -- what the observation comes from
BEGIN
    IF p_scope IS NOT NULL THEN
        WITH RECURSIVE seen AS MATERIALIZED (
            SELECT v.agent_key, v.scope_id FROM memory.visible_scopes(p_agent, p_user, p_conversation) v
        ), line (agent_key, scope_id, seq) AS (
            SELECT v.agent_key, v.scope_id, p_seq FROM seen v WHERE v.scope_id = p_scope
            UNION
            SELECT k.agent_key, k.source_scope_id, k.source_seq FROM line n
            JOIN memory.lineage k ON k.agent_key = n.agent_key AND k.scope_id = n.scope_id AND k.seq = n.seq
            JOIN seen v ON v.agent_key = k.agent_key AND v.scope_id = k.source_scope_id
        )
        SELECT array_agg(m.conversation_id), array_agg(m.number) INTO v_conversations, v_numbers
        FROM (
            SELECT DISTINCT e.conversation_id, e.number FROM line n
            JOIN memory.evidence e ON e.agent_key = n.agent_key AND e.scope_id = n.scope_id AND e.seq = n.seq
            WHERE e.number IS NOT NULL
        ) m;
    END IF;
    RETURN QUERY
    WITH visible AS MATERIALIZED (  -- once, not for each message
        SELECT a.agent_key, v.conversation_id, memory.retention_start(a.settings, p_days, p_at) AS since
        FROM memory.agents a
        CROSS JOIN memory.visible_conversations(p_agent, p_user, NULL, CASE WHEN p_scope IS NULL THEN p_conversation END) v
        WHERE a.agent_id = p_agent
    )
    SELECT m.conversation_id, m.message_id, m.number, m.role, m.speaker, m.user_id, m.content, m.said_at, m.given_at
    FROM (  -- what is set aside is looked up below, as far as the page reaches
        SELECT m.*
        FROM (
            SELECT v.agent_key, v.since, m.conversation_id, m.number, m.said_at
            FROM visible v
            JOIN memory.messages m ON m.agent_key = v.agent_key AND m.conversation_id = v.conversation_id AND memory.is_kept(m, v.since, NULL)
            WHERE p_scope IS NULL
            UNION ALL  -- by their keys, however much else the user may read
            SELECT v.agent_key, v.since, m.conversation_id, m.number, m.said_at
            FROM unnest(v_conversations, v_numbers) e(conversation_id, number)
            JOIN visible v ON v.conversation_id = e.conversation_id
            CROSS JOIN LATERAL (
                SELECT m.* FROM memory.messages m
                WHERE m.agent_key = v.agent_key AND m.conversation_id = e.conversation_id AND m.number = e.number
                  AND memory.is_kept(m, v.since, NULL)
                LIMIT 1
            ) m
        ) m
        WHERE p_before IS NULL OR (m.said_at, m.conversation_id, m.number) < (p_before, p_before_conversation, p_before_number)
        ORDER BY m.said_at DESC, m.conversation_id DESC, m.number DESC OFFSET 0
    ) n
    CROSS JOIN LATERAL (
        SELECT m.* FROM memory.messages_since(n.agent_key, n.conversation_id, n.since, NULL) m WHERE m.number = n.number OFFSET 0
    ) m
    ORDER BY n.said_at DESC, n.conversation_id DESC, n.number DESC
    LIMIT p_limit;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.read_messages(
    text, text, text, bigint, integer, timestamptz, text, bigint, bigint, double precision, timestamptz
) FROM PUBLIC;

COMMENT ON FUNCTION memory.read_messages IS 'The messages that a user of an agent may read, newest first; one row per message.';
