CREATE OR REPLACE VIEW memory.v_messages WITH (security_invoker = true) AS
SELECT
    a.agent_id,
    m.conversation_id,
    m.number,
    m.message_id,
    m.role,
    CASE WHEN m.user_id = ANY (s.participants) THEN m.user_id END AS user_id,
    CASE WHEN m.withdrawn_by IS NULL THEN m.speaker END AS speaker,
    CASE WHEN m.withdrawn_by IS NULL THEN m.content END AS content,
    m.said_at,
    m.created_at,
    s.group_ids,
    CASE
        WHEN m.number <= s.formed_number AND m.eligible THEN 'formed'
        WHEN m.eligible AND m.content IS NOT NULL AND NOT s.excluded THEN 'waiting'
        ELSE 'skipped'
    END AS formation,
    m.signal,
    m.cleaned
FROM memory.messages m
JOIN memory.conversations s ON s.agent_key = m.agent_key AND s.conversation_id = m.conversation_id
JOIN memory.agents a ON a.agent_key = m.agent_key;
COMMENT ON VIEW memory.v_messages IS
    'One row per message: who said it in which conversation and when, what became of it, and its text where that is kept.';
COMMENT ON COLUMN memory.v_messages.agent_id IS 'The host''s id for the agent.';
COMMENT ON COLUMN memory.v_messages.conversation_id IS 'The host''s id for the conversation.';
COMMENT ON COLUMN memory.v_messages.number IS '1, 2, 3 … in the order of arrival; with agent_id and conversation_id the key of the view.';
COMMENT ON COLUMN memory.v_messages.message_id IS 'The host''s id for the message, or one that the library made.';
COMMENT ON COLUMN memory.v_messages.role IS 'user, assistant, agent, system, developer, tool or function.';
COMMENT ON COLUMN memory.v_messages.user_id IS 'The host''s id for the user who wrote it; null: the agent or a tool, or a user who was forgotten.';
COMMENT ON COLUMN memory.v_messages.speaker IS 'The speaker''s name, as the host gave it; null: none was given, or the text isn''t kept.';
COMMENT ON COLUMN memory.v_messages.content IS 'What was said; null: it was forgotten, or the sweep has ended its retention.';
COMMENT ON COLUMN memory.v_messages.said_at IS 'When it was said.';
COMMENT ON COLUMN memory.v_messages.created_at IS 'When it was stored.';
COMMENT ON COLUMN memory.v_messages.group_ids IS 'The host''s ids for the groups in which its conversation takes place.';
COMMENT ON COLUMN memory.v_messages.formation IS 'formed (a formation has read it), waiting (none has yet) or skipped (none will).';
COMMENT ON COLUMN memory.v_messages.signal IS 'The signal that it carried and that makes its conversation due at once; null: none.';
COMMENT ON COLUMN memory.v_messages.cleaned IS 'What was changed before storing: nul, surrogate, controls, bidi_controls, zero_width, tag_characters, secret.';
