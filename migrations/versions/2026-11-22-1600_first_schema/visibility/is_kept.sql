CREATE OR REPLACE FUNCTION memory.is_kept(p_message memory.messages, p_since timestamptz, p_as_of timestamptz) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT p_message.content IS NOT NULL AND p_message.eligible AND p_message.withdrawn_by IS NULL
        AND (p_message.created_at >= p_since OR p_message.verbatim) AND (p_as_of IS NULL OR p_message.created_at <= p_as_of)
$$;
COMMENT ON FUNCTION memory.is_kept IS 'Whether a message has its text and may be searched; one value.';
