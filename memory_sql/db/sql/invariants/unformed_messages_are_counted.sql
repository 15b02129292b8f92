-- unformed_messages and unformed_tokens count the eligible messages after formed_number that have their texts, and unformed_since is when
-- the first of them was stored. Tokens are summed as real, so a deviation of a thousandth is allowed.
SELECT
    a.agent_id,
    'conversation ' || s.conversation_id AS key,
    format('%s messages and %s tokens counted, %s and %s there; since %s, the first at %s', s.unformed_messages,
           s.unformed_tokens, coalesce(m.messages, 0), coalesce(m.tokens, 0), coalesce(s.unformed_since::text, 'never'),
           coalesce(m.since::text, 'none')) AS detail
FROM memory.conversations s
JOIN memory.agents a USING (agent_key)
LEFT JOIN (
    SELECT t.agent_key, t.conversation_id, count(*) AS messages, sum(m.weight::float8) AS tokens,
           min(m.created_at) AS since
    FROM memory.conversations t
    JOIN memory.messages m
      ON m.agent_key = t.agent_key AND m.conversation_id = t.conversation_id AND m.number > t.formed_number
    WHERE m.eligible AND m.content IS NOT NULL
    GROUP BY t.agent_key, t.conversation_id
) m USING (agent_key, conversation_id)
WHERE s.unformed_messages <> coalesce(m.messages, 0)
   OR abs(s.unformed_tokens - coalesce(m.tokens, 0)) > 0.01 + 0.001 * coalesce(m.tokens, 0)
   OR s.unformed_since IS DISTINCT FROM m.since
