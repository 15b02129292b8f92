-- Following the open aliases from a user never leads back to that user.
WITH RECURSIVE chain (agent_key, user_id, reached) AS (
    SELECT agent_key, user_id, into_user_id
    FROM memory.user_aliases
    WHERE ended_at IS NULL
    UNION
    SELECT c.agent_key, c.user_id, l.into_user_id
    FROM chain c
    JOIN memory.user_aliases l ON l.agent_key = c.agent_key AND l.user_id = c.reached AND l.ended_at IS NULL
)
SELECT a.agent_id, format('user %s', c.user_id) AS key, 'stands for itself, through others' AS detail
FROM chain c
JOIN memory.agents a USING (agent_key)
WHERE c.reached = c.user_id
