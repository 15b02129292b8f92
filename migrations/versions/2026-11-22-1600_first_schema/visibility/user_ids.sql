CREATE OR REPLACE FUNCTION memory.user_ids(p_agent bigint, p_user text, p_as_of timestamptz DEFAULT NULL)
RETURNS TABLE (user_id text)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    WITH RECURSIVE mine (user_id) AS (
        SELECT p_user WHERE p_user IS NOT NULL
        UNION
        SELECT l.user_id
        FROM mine
        JOIN memory.user_aliases l ON l.into_user_id = mine.user_id
        WHERE l.agent_key = p_agent AND l.ended_at IS NULL AND (p_as_of IS NULL OR l.created_at <= p_as_of)
    )
    SELECT m.user_id FROM mine m
$$;
COMMENT ON FUNCTION memory.user_ids IS 'All ids of a user: their own and those that stand for them; one row per id.';
