-- memory.held_ids(agent_key, user, since): the ids that a hold on a user since then covers: those that stand for them or have
-- since, and those that a forgetting keeps known for holds alone (user_aliases.withdrawn_by). One row per id.
CREATE OR REPLACE FUNCTION memory.held_ids(p_agent bigint, p_user text, p_since timestamptz) RETURNS TABLE (user_id text)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE theirs (user_id) AS (
        SELECT p_user
        UNION
        SELECT l.user_id
        FROM theirs t
        JOIN memory.user_aliases l ON l.agent_key = p_agent AND l.into_user_id = t.user_id
        WHERE l.ended_at IS NULL OR l.ended_at >= p_since OR l.withdrawn_by IS NOT NULL
    )
    SELECT t.user_id FROM theirs t
$$;

COMMENT ON FUNCTION memory.held_ids IS 'The ids that a hold on a user covers; one row per id.';

-- memory.is_held_id(agent_key, user): whether an open hold on a user covers this id. One value.
CREATE OR REPLACE FUNCTION memory.is_held_id(p_agent bigint, p_user text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM memory.holds h
        CROSS JOIN LATERAL memory.held_ids(p_agent, h.target, h.created_at) i
        WHERE h.agent_key = p_agent AND h.kind = 'user' AND h.released_at IS NULL AND i.user_id = p_user
    )
$$;

COMMENT ON FUNCTION memory.is_held_id IS 'Whether an open hold on a user covers this id; one value.';

-- memory.holds_observation(agent_key, hold_id, observation, owner): whether an open hold, any or this one, keeps this observation itself:
-- by its key, the group or the conversation, or a user, whose ids are all that stand for them. Then it is what lies in
-- their own scopes, and what they said. What was said in a conversation or by a user counts also where another had said it
-- first, and where the word is withdrawn; what it was lent is another observation's. `owner` is its scope's. One value.
CREATE OR REPLACE FUNCTION memory.holds_observation(
    p_agent bigint, p_hold bigint, p_observation memory.observations, p_owner text
) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM memory.holds h
        WHERE h.agent_key = p_agent AND h.released_at IS NULL AND (p_hold IS NULL OR h.hold_id = p_hold) AND CASE h.kind
            WHEN 'observation' THEN h.target = format('o%s-%s', (p_observation).scope_id, (p_observation).seq)
            WHEN 'group' THEN p_owner = 'g:' || h.target
            WHEN 'conversation' THEN coalesce((p_observation).conversation_id = h.target, false) OR EXISTS (
                SELECT FROM memory.evidence e
                WHERE e.agent_key = p_agent AND e.scope_id = (p_observation).scope_id AND e.seq = (p_observation).seq
                  AND e.conversation_id = h.target AND e.repeated_seq IS NULL
            )
            ELSE EXISTS (
                SELECT FROM memory.held_ids(p_agent, h.target, h.created_at) i
                WHERE p_owner = 'u:' || i.user_id OR i.user_id = ANY ((p_observation).related_users) OR EXISTS (
                    SELECT FROM memory.evidence e
                    WHERE e.agent_key = p_agent AND e.scope_id = (p_observation).scope_id AND e.seq = (p_observation).seq
                      AND e.user_id = i.user_id AND e.repeated_seq IS NULL
                )
            )
        END
    )
$$;

COMMENT ON FUNCTION memory.holds_observation IS 'Whether an open hold keeps this observation itself; one value.';

-- memory.holds_message(agent_key, hold_id, message, groups): whether an open hold, any or this one, keeps this message itself: of a
-- user, a group or a conversation. `groups` are its conversation's. One value.
CREATE OR REPLACE FUNCTION memory.holds_message(
    p_agent bigint, p_hold bigint, p_message memory.messages, p_groups text[]
) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM memory.holds h
        WHERE h.agent_key = p_agent AND h.released_at IS NULL AND (p_hold IS NULL OR h.hold_id = p_hold) AND CASE h.kind
            WHEN 'user' THEN (p_message).user_id IN (SELECT i.user_id FROM memory.held_ids(p_agent, h.target, h.created_at) i)
            WHEN 'group' THEN h.target = ANY (p_groups)
            WHEN 'conversation' THEN (p_message).conversation_id = h.target
        END
    )
$$;

COMMENT ON FUNCTION memory.holds_message IS 'Whether an open hold keeps this message itself; one value.';

-- memory.held_observations(agent_key, hold_id): the observations that an open hold keeps: any, or this one. One row per
-- observation. What something held was made of is held with it: without that nobody could say where it comes from, nor find it
-- when the hold has ended; so is what is of one text with it (memory.parts). Reads all of the agent's, as memory.held_messages does.
CREATE OR REPLACE FUNCTION memory.held_observations(
    p_agent bigint, p_hold bigint DEFAULT NULL
) RETURNS TABLE (scope_id bigint, seq integer)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE line (scope_id, seq) AS (
        SELECT o.scope_id, o.seq
        FROM memory.observations o
        JOIN memory.scopes s ON s.agent_key = o.agent_key AND s.scope_id = o.scope_id
        WHERE o.agent_key = p_agent
          AND EXISTS (SELECT FROM memory.holds h WHERE h.agent_key = p_agent AND h.released_at IS NULL)
          AND memory.holds_observation(p_agent, p_hold, o, s.owner)
        UNION
        SELECT k.scope_id, k.seq
        FROM line n
        CROSS JOIN LATERAL (
            SELECT l.source_scope_id AS scope_id, l.source_seq AS seq
            FROM memory.lineage l WHERE l.agent_key = p_agent AND l.scope_id = n.scope_id AND l.seq = n.seq
            UNION ALL
            SELECT n.scope_id, p FROM memory.parts(p_agent, n.scope_id, n.seq) p
            OFFSET 0
        ) k
    )
    SELECT n.scope_id, n.seq FROM line n
$$;

COMMENT ON FUNCTION memory.held_observations IS 'The observations that an open hold keeps; one row per observation.';

-- memory.held_messages(agent_key, hold_id): the messages that an open hold keeps: any, or this one. One row per message: of a
-- held user, group or conversation, and what supports an observation that is held. Without an open hold nothing is looked
-- through.
CREATE OR REPLACE FUNCTION memory.held_messages(
    p_agent bigint, p_hold bigint DEFAULT NULL
) RETURNS TABLE (conversation_id text, number bigint)
LANGUAGE sql STABLE AS $$
    SELECT m.conversation_id, m.number
    FROM memory.messages m
    JOIN memory.conversations t ON t.agent_key = m.agent_key AND t.conversation_id = m.conversation_id
    WHERE m.agent_key = p_agent
      AND EXISTS (SELECT FROM memory.holds h WHERE h.agent_key = p_agent AND h.released_at IS NULL)
      AND (
          memory.holds_message(p_agent, p_hold, m, t.group_ids)
          OR EXISTS (
              SELECT FROM memory.evidence e
              JOIN memory.held_observations(p_agent, p_hold) o ON o.scope_id = e.scope_id AND o.seq = e.seq
              WHERE e.agent_key = p_agent AND e.conversation_id = m.conversation_id AND e.number = m.number
                AND e.repeated_seq IS NULL
          )
      )
$$;

COMMENT ON FUNCTION memory.held_messages IS 'The messages that an open hold keeps; one row per message.';

-- memory.is_held_observation(agent_key, scope_id, seq): whether this observation is one of memory.held_observations of any hold: by itself, or
-- since something was made of it, over all levels. One value; reads no more than that.
CREATE OR REPLACE FUNCTION memory.is_held_observation(p_agent bigint, p_scope bigint, p_seq integer) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        WITH RECURSIVE line (scope_id, seq) AS (
            SELECT p_scope, p_seq
            UNION
            SELECT k.scope_id, k.seq
            FROM line n
            CROSS JOIN LATERAL (
                SELECT l.scope_id, l.seq FROM memory.lineage l
                WHERE l.agent_key = p_agent AND l.source_scope_id = n.scope_id AND l.source_seq = n.seq
                UNION ALL
                SELECT n.scope_id, p FROM memory.parts(p_agent, n.scope_id, n.seq) p
                OFFSET 0
            ) k
        )
        SELECT FROM line n
        CROSS JOIN LATERAL (
            SELECT memory.holds_observation(p_agent, NULL, o, s.owner) AS held
            FROM memory.observations o
            JOIN memory.scopes s ON s.agent_key = p_agent AND s.scope_id = o.scope_id
            WHERE o.agent_key = p_agent AND o.scope_id = n.scope_id AND o.seq = n.seq
            OFFSET 0
        ) k
        WHERE k.held
    )
$$;

COMMENT ON FUNCTION memory.is_held_observation IS 'Whether an open hold keeps this observation; one value.';

-- memory.is_held_message(agent_key, conversation_id, number): whether this message is one of memory.held_messages of any hold. One value.
CREATE OR REPLACE FUNCTION memory.is_held_message(p_agent bigint, p_conversation text, p_number bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM memory.messages m
        JOIN memory.conversations t ON t.agent_key = p_agent AND t.conversation_id = m.conversation_id
        WHERE m.agent_key = p_agent AND m.conversation_id = p_conversation AND m.number = p_number
          AND memory.holds_message(p_agent, NULL, m, t.group_ids)
    ) OR EXISTS (
        SELECT FROM memory.evidence e
        WHERE e.agent_key = p_agent AND e.conversation_id = p_conversation AND e.number = p_number
          AND e.repeated_seq IS NULL AND memory.is_held_observation(p_agent, e.scope_id, e.seq)
    )
$$;

COMMENT ON FUNCTION memory.is_held_message IS 'Whether an open hold keeps this message; one value.';

-- memory.released(agent_key): what is withdrawn (observation_states.status, withdrawn_by elsewhere) and no open hold keeps any
-- more: the forgettings that wait for nothing. One row per observation, message, row of evidence or alias, of which the others'
-- columns are null.
CREATE OR REPLACE FUNCTION memory.released(p_agent bigint) RETURNS TABLE (
    withdrawn_by text, scope_id bigint, seq integer, conversation_id text, number bigint, evidence_id bigint
)
LANGUAGE sql STABLE AS $$
    WITH held AS MATERIALIZED (SELECT h.scope_id, h.seq FROM memory.held_observations(p_agent) h)
    SELECT t.withdrawn_by, t.scope_id, t.seq, NULL::text, NULL::bigint, NULL::bigint
    FROM memory.observation_states t
    WHERE t.agent_key = p_agent AND t.withdrawn_by IS NOT NULL AND (t.scope_id, t.seq) NOT IN (TABLE held)
    UNION ALL
    SELECT m.withdrawn_by, NULL, NULL, m.conversation_id, m.number, NULL
    FROM memory.messages m
    WHERE m.agent_key = p_agent AND m.withdrawn_by IS NOT NULL AND (m.conversation_id, m.number) NOT IN (
        SELECT h.conversation_id, h.number FROM memory.held_messages(p_agent) h
    )
    UNION ALL
    SELECT coalesce(t.withdrawn_by, e.withdrawn_by), NULL, NULL, NULL, NULL, e.evidence_id  -- goes with its observation
    FROM memory.evidence e
    LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq)
    WHERE e.agent_key = p_agent AND e.withdrawn_by IS NOT NULL AND (
        (e.scope_id, e.seq) NOT IN (TABLE held) OR e.repeated_seq IS NOT NULL AND (e.scope_id, e.repeated_seq) NOT IN (TABLE held)
    )
    UNION ALL
    SELECT u.withdrawn_by, NULL, NULL, NULL, NULL, NULL
    FROM memory.user_aliases u
    WHERE u.agent_key = p_agent AND u.withdrawn_by IS NOT NULL AND NOT memory.is_held_id(p_agent, u.into_user_id)
$$;

COMMENT ON FUNCTION memory.released IS
    'What is withdrawn and no open hold keeps any more; one row per observation, message, row of evidence or alias.';
