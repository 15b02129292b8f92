-- memory.end_retention(agent, conversation, days, keep, at, after_agent, after_session, after_number, conversations, messages): takes the
-- texts from messages whose retention is over. One row: how many messages, and where the next batch goes on (null: it is through). Of one
-- agent and conversation, or of all where they are null, after that message, in the order of keys; it looks at, at most, so many
-- conversations and messages, each once. `days` as in memory.retention_start. The row stays as a stub: evidence leads to it, and the
-- message is known when it comes again.
-- Kept is what no formation has read yet, unless the conversation is excluded, and what an open hold covers; and, for agents that
-- want it (keep_verbatim, else `keep`), what memory.is_verbatim says: it is marked, so that it is read as before. No epoch rises:
-- a formation that is under way reads what this leaves alone. It locks the conversations, and their agents against new holds,
-- and passes over those that somebody else has locked: so it waits for nobody, and several at once share the work. Two
-- steps, since the second must see what was committed before the first had its locks.
CREATE OR REPLACE FUNCTION memory.end_retention(
    p_agent text, p_conversation text, p_days double precision, p_keep boolean, p_at timestamptz, p_after_agent bigint, p_after_conversation text,
    p_after_number bigint, p_conversations bigint, p_messages bigint,
    OUT ended bigint, OUT last_agent bigint, OUT last_conversation text, OUT last_number bigint
)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    c_whole CONSTANT bigint := 9223372036854775807;  -- after all messages of a conversation
    v_agents bigint[];
    v_conversations text[];
    v_starts timestamptz[];
    v_keeps boolean[];
    v_found bigint;
    v_looked bigint;
BEGIN
    SELECT coalesce(array_agg(f.agent_key), '{}'), coalesce(array_agg(f.conversation_id), '{}'), array_agg(f.start),
           array_agg(f.keeps)
    INTO v_agents, v_conversations, v_starts, v_keeps
    FROM (
        WITH starts AS MATERIALIZED (  -- apart: behind walls no index is read by a function of another row
            SELECT a.agent_key, memory.retention_start(a.settings, p_days, p_at) AS start
            FROM memory.agents a
            WHERE (p_agent IS NULL OR a.agent_id = p_agent)
              AND NOT EXISTS (SELECT FROM memory.moved_agents v WHERE v.moved_key = a.agent_key)
        )
        SELECT s.agent_key, s.conversation_id, r.start, coalesce(
            CASE WHEN jsonb_typeof(a.settings -> 'keep_verbatim') = 'boolean' THEN (a.settings -> 'keep_verbatim')::boolean END, p_keep, false
        ) AS keeps
        FROM starts f
        JOIN memory.agents a ON a.agent_key = f.agent_key
        CROSS JOIN LATERAL (SELECT memory.retention_start(a.settings, p_days, p_at) AS start) r  -- again: as locked
        JOIN memory.conversations s ON s.agent_key = a.agent_key AND s.text_since < f.start AND s.text_since < r.start
        WHERE (p_conversation IS NULL OR s.conversation_id = p_conversation)
          AND (s.agent_key, s.conversation_id) >= (p_after_agent, p_after_conversation)
          AND NOT ((s.agent_key, s.conversation_id) = (p_after_agent, p_after_conversation) AND p_after_number = c_whole)
        ORDER BY s.agent_key, s.conversation_id
        LIMIT p_conversations
        FOR SHARE OF a SKIP LOCKED FOR NO KEY UPDATE OF s SKIP LOCKED
    ) f;
    v_found := cardinality(v_conversations);
    WITH looked AS MATERIALIZED (
        SELECT m.agent_key, m.conversation_id, m.number, m.verbatim, s.formed_number,
               m.number <= s.formed_number OR NOT m.eligible OR s.excluded AS may_go,
               k.keeps AND memory.is_verbatim(m.agent_key, m.conversation_id, m.number) AS is_kept
        FROM unnest(v_agents, v_conversations, v_starts, v_keeps) AS k (agent_key, conversation_id, start, keeps)
        JOIN memory.conversations s ON s.agent_key = k.agent_key AND s.conversation_id = k.conversation_id
        JOIN memory.messages m ON m.agent_key = s.agent_key AND m.conversation_id = s.conversation_id
        WHERE m.created_at < k.start AND m.content IS NOT NULL
          AND (m.agent_key, m.conversation_id, m.number) > (p_after_agent, p_after_conversation, p_after_number)
          AND (k.keeps OR m.number <= s.formed_number OR NOT m.eligible OR s.excluded)
        ORDER BY m.agent_key, m.conversation_id, m.number
        LIMIT p_messages
    ), marked AS (
        UPDATE memory.messages m SET verbatim = true
        FROM looked l
        WHERE l.is_kept AND NOT l.verbatim AND m.agent_key = l.agent_key AND m.conversation_id = l.conversation_id AND m.number = l.number
    ), gone AS (
        UPDATE memory.messages m
        SET content = NULL, content_hash = memory.message_hash(m.agent_key, m.number, m.content), speaker = NULL, search_extra = '',
            eligible = m.eligible AND m.number <= l.formed_number, verbatim = false
        FROM looked l
        WHERE m.agent_key = l.agent_key AND m.conversation_id = l.conversation_id AND m.number = l.number
          AND l.may_go AND NOT l.is_kept AND NOT (
              EXISTS (SELECT FROM memory.holds h WHERE h.agent_key = m.agent_key AND h.released_at IS NULL)
              AND memory.is_held_message(m.agent_key, m.conversation_id, m.number)
          )
        RETURNING m.number
    )
    SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM looked), l.agent_key, l.conversation_id, l.number
    INTO ended, v_looked, last_agent, last_conversation, last_number
    FROM (SELECT) one
    LEFT JOIN LATERAL (
        SELECT l.* FROM looked l ORDER BY l.agent_key DESC, l.conversation_id DESC, l.number DESC LIMIT 1
    ) l ON true;
    IF v_looked < p_messages THEN
        last_agent := CASE WHEN v_found = p_conversations THEN v_agents[v_found] END;
        last_conversation := CASE WHEN v_found = p_conversations THEN v_conversations[v_found] END;
        last_number := CASE WHEN v_found = p_conversations THEN c_whole END;
    END IF;

    UPDATE memory.conversations s
    SET text_since = m.text_since,
        unformed_messages = CASE WHEN s.excluded THEN m.messages ELSE s.unformed_messages END,
        unformed_tokens = CASE WHEN s.excluded THEN m.tokens ELSE s.unformed_tokens END,
        unformed_since = CASE WHEN s.excluded THEN m.oldest ELSE s.unformed_since END
    FROM (  -- those that are through; and one that isn't, if it is counted anew
        SELECT k.agent_key, k.conversation_id
        FROM unnest(v_agents, v_conversations) AS k (agent_key, conversation_id)
        JOIN memory.conversations t ON t.agent_key = k.agent_key AND t.conversation_id = k.conversation_id
        WHERE v_looked < p_messages OR (k.agent_key, k.conversation_id) < (last_agent, last_conversation)
           OR t.excluded AND (k.agent_key, k.conversation_id) = (last_agent, last_conversation)
        OFFSET 0
    ) k
    CROSS JOIN LATERAL (
        SELECT min(m.created_at) FILTER (WHERE m.content IS NOT NULL) AS text_since,
               count(*) FILTER (WHERE f.is_unformed)::integer AS messages,
               coalesce(sum(m.weight) FILTER (WHERE f.is_unformed), 0)::real AS tokens,
               min(m.created_at) FILTER (WHERE f.is_unformed) AS oldest
        FROM memory.conversations t
        JOIN memory.messages m ON m.agent_key = t.agent_key AND m.conversation_id = t.conversation_id
        CROSS JOIN LATERAL (SELECT m.eligible AND m.number > t.formed_number AS is_unformed) f
        WHERE t.agent_key = k.agent_key AND t.conversation_id = k.conversation_id
    ) m
    WHERE s.agent_key = k.agent_key AND s.conversation_id = k.conversation_id;
END
$$;

COMMENT ON FUNCTION memory.end_retention IS 'Takes the texts from messages whose retention is over; one row.';
