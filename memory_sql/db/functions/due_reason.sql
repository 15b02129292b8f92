-- memory.due_reason(messages, tokens, signalled, due_messages, due_tokens, min_messages): why a session with that much
-- unformed is due; cold: only after a silence; null: not at all. The counts are of messages that formation reads.
CREATE OR REPLACE FUNCTION memory.due_reason(
    p_messages integer, p_tokens real, p_signalled boolean,
    p_due_messages integer, p_due_tokens integer, p_min_messages integer
) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
        WHEN p_signalled AND p_messages > 0 THEN 'signal'
        WHEN p_messages >= p_due_messages THEN 'messages'
        WHEN p_messages >= p_min_messages AND p_tokens >= p_due_tokens THEN 'tokens'
        WHEN p_messages >= p_min_messages THEN 'cold'
    END
$$;

COMMENT ON FUNCTION memory.due_reason(integer, real, boolean, integer, integer, integer) IS
    'Why a session is due: signal, messages, tokens or cold; null: it is not.';
