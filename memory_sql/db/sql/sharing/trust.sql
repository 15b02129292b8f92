-- memory.trust(agent_key, scope, seq): how far an observation can be trusted, judged by who said it and not by what it says:
-- 3 the host stated it; 2 a user said it; 1 the assistant said it; 0 a tool said it, or it was imported and hasn't been
-- confirmed since. One value. Of several messages the most trusted counts, since a person's yes supports the assistant's
-- proposal. Of several sources the least trusted counts, so that nothing gains trust on its way up. Null if the observation
-- doesn't exist.
CREATE OR REPLACE FUNCTION memory.trust(p_agent bigint, p_scope bigint, p_seq integer) RETURNS integer
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE line (scope_id, seq) AS (
        SELECT p_scope, p_seq
        UNION
        SELECT k.source_scope_id, k.source_seq
        FROM line n
        JOIN memory.lineage k ON k.agent_key = p_agent AND k.scope_id = n.scope_id AND k.seq = n.seq
    )
    SELECT min(
        CASE o.source_kind
            WHEN 'propagation' THEN CASE
                WHEN EXISTS (
                    SELECT FROM memory.lineage k WHERE k.agent_key = p_agent AND k.scope_id = n.scope_id AND k.seq = n.seq
                ) THEN 3  -- its sources are in the line
                ELSE 2  -- somebody has said the same in that scope
            END
            WHEN 'observe' THEN CASE WHEN cardinality(o.related_users) > 0 THEN 2 ELSE 3 END
            WHEN 'formation' THEN coalesce(
                (
                    SELECT max(CASE m.role WHEN 'user' THEN 2 WHEN 'assistant' THEN 1 ELSE 0 END)
                    FROM memory.messages m
                    WHERE m.agent_key = p_agent AND m.conversation_id = o.conversation_id AND m.message_id = ANY (o.message_ids)
                ),
                0
            )
            ELSE CASE WHEN t.verification = 'confirmed' THEN 2 ELSE 0 END
        END
    )
    FROM line n
    JOIN memory.observations o ON o.agent_key = p_agent AND o.scope_id = n.scope_id AND o.seq = n.seq
    LEFT JOIN memory.observation_states t ON t.agent_key = p_agent AND t.scope_id = n.scope_id AND t.seq = n.seq
$$;

COMMENT ON FUNCTION memory.trust IS
    'How far an observation can be trusted: 3 host, 2 user, 1 assistant, 0 tool or import; the least of its sources.';
