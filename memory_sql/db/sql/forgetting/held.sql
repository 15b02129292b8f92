-- memory.held_observations(agent_key, hold_id): the observations that an open hold keeps: any, or this one. One row per
-- observation. A hold on a user covers the ids that stand for them: what lies in their own scopes, and what they said. What
-- something held was made of is held with it: without that nobody could say where it comes from, nor find it when the hold has
-- ended.
CREATE OR REPLACE FUNCTION memory.held_observations(
    p_agent bigint, p_hold bigint DEFAULT NULL
) RETURNS TABLE (scope_id bigint, seq integer)
LANGUAGE sql STABLE
AS $$
    WITH RECURSIVE line (scope_id, seq) AS (
        SELECT o.scope_id, o.seq
        FROM memory.observations o
        JOIN memory.scopes s ON s.agent_key = o.agent_key AND s.scope_id = o.scope_id
        WHERE o.agent_key = p_agent
          AND EXISTS (SELECT FROM memory.holds h WHERE h.agent_key = p_agent AND h.released_at IS NULL)
          AND EXISTS (
              SELECT FROM memory.holds h
              WHERE h.agent_key = p_agent AND h.released_at IS NULL
                AND (p_hold IS NULL OR h.hold_id = p_hold) AND CASE h.kind
                  WHEN 'observation' THEN h.target = format('o%s-%s', o.scope_id, o.seq)
                  WHEN 'group' THEN s.owner = 'g:' || h.target
                  WHEN 'conversation' THEN o.conversation_id = h.target
                  ELSE EXISTS (
                      SELECT FROM memory.user_ids(p_agent, h.target) i
                      WHERE s.owner = 'u:' || i.user_id OR i.user_id = ANY (o.related_users)
                  )
              END
          )
        UNION
        SELECT k.source_scope_id, k.source_seq
        FROM line n
        JOIN memory.lineage k ON k.agent_key = p_agent AND k.scope_id = n.scope_id AND k.seq = n.seq
    )
    SELECT n.scope_id, n.seq FROM line n
$$;

COMMENT ON FUNCTION memory.held_observations(bigint, bigint) IS
    'The observations that an open hold keeps; one row per observation.';

-- memory.held_messages(agent_key, hold_id): the messages that an open hold keeps: any, or this one. One row per message: of a
-- held user, group or conversation, and what supports an observation that is held. Without an open hold nothing is looked
-- through.
CREATE OR REPLACE FUNCTION memory.held_messages(
    p_agent bigint, p_hold bigint DEFAULT NULL
) RETURNS TABLE (conversation_id text, number bigint)
LANGUAGE sql STABLE
AS $$
    SELECT m.conversation_id, m.number
    FROM memory.messages m
    JOIN memory.conversations t ON t.agent_key = m.agent_key AND t.conversation_id = m.conversation_id
    WHERE m.agent_key = p_agent
      AND EXISTS (SELECT FROM memory.holds h WHERE h.agent_key = p_agent AND h.released_at IS NULL)
      AND (
          EXISTS (
              SELECT FROM memory.holds h
              WHERE h.agent_key = p_agent AND h.released_at IS NULL
                AND (p_hold IS NULL OR h.hold_id = p_hold) AND CASE h.kind
                  WHEN 'user' THEN m.user_id IN (SELECT i.user_id FROM memory.user_ids(p_agent, h.target) i)
                  WHEN 'group' THEN h.target = ANY (t.group_ids)
                  WHEN 'conversation' THEN m.conversation_id = h.target
              END
          )
          OR EXISTS (
              SELECT FROM memory.evidence e
              JOIN memory.held_observations(p_agent, p_hold) o ON o.scope_id = e.scope_id AND o.seq = e.seq
              WHERE e.agent_key = p_agent AND e.conversation_id = m.conversation_id AND e.number = m.number
          )
      )
$$;

COMMENT ON FUNCTION memory.held_messages(bigint, bigint) IS 'The messages that an open hold keeps; one row per message.';
