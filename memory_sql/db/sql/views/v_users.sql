-- memory.v_users: the known users. One row per agent and user who has written in a conversation, has observations in a
-- scope of their own, or belongs or belonged to a group. Forgotten users aren't included. A user is an id that the host
-- gave: several ids of one person have a row each, and stands_for names the user for whom an id stands.
CREATE OR REPLACE VIEW memory.v_users WITH (security_invoker = true) AS
SELECT
    a.agent_id,
    e.user_id,
    e.stands_for,
    e.conversations,
    e.messages,
    e.first_seen_at,
    e.last_seen_at,
    e.observations,
    e.contributed,
    e.groups
FROM memory.agents a
CROSS JOIN LATERAL (
    SELECT
        user_id,
        l.into_user_id AS stands_for,
        coalesce(c.conversations, 0) AS conversations,
        coalesce(m.messages, 0) AS messages,
        m.first_seen_at,
        m.last_seen_at,
        coalesce(o.observations, 0) AS observations,
        coalesce(v.contributed, 0) AS contributed,
        coalesce(g.groups, 0) AS groups
    FROM (
        SELECT u.user_id, count(*) AS conversations
        FROM memory.conversations s
        CROSS JOIN LATERAL unnest(s.participants) AS u (user_id)
        WHERE s.agent_key = a.agent_key
        GROUP BY 1
    ) c
    FULL JOIN (
        SELECT substr(s.owner, 3) AS user_id, count(*) FILTER (WHERE memory.in_use(t.status)) AS observations
        FROM memory.scopes s
        JOIN memory.observations n ON n.agent_key = s.agent_key AND n.scope_id = s.scope_id
        LEFT JOIN memory.observation_states t ON t.agent_key = n.agent_key AND t.scope_id = n.scope_id AND t.seq = n.seq
        WHERE s.agent_key = a.agent_key AND s.kind = 'individual' AND t.withdrawn_by IS NULL
        GROUP BY 1
    ) o USING (user_id)
    FULL JOIN (
        SELECT b.user_id, count(*) FILTER (WHERE b.left_at IS NULL) AS groups
        FROM memory.members b
        WHERE b.agent_key = a.agent_key
        GROUP BY 1
    ) g USING (user_id)
    LEFT JOIN (
        SELECT w.user_id, count(*) AS messages, min(w.said_at) AS first_seen_at, max(w.said_at) AS last_seen_at
        FROM memory.conversations s
        JOIN memory.messages w ON w.agent_key = s.agent_key AND w.conversation_id = s.conversation_id
        WHERE s.agent_key = a.agent_key AND w.user_id = ANY (s.participants)  -- a forgotten user no longer is one
        GROUP BY 1
    ) m USING (user_id)
    LEFT JOIN (
        SELECT d.user_id, count(*) AS contributed
        FROM (
            SELECT DISTINCT i.user_id, i.scope_id, i.seq
            FROM memory.evidence i
            WHERE i.agent_key = a.agent_key AND i.user_id IS NOT NULL AND i.withdrawn_by IS NULL
        ) d
        GROUP BY 1
    ) v USING (user_id)
    LEFT JOIN (
        SELECT t.user_id, t.into_user_id
        FROM memory.user_aliases t
        WHERE t.agent_key = a.agent_key AND t.ended_at IS NULL
    ) l USING (user_id)
) e;

COMMENT ON VIEW memory.v_users IS
    'One row per agent and known user: what they wrote and when, and what is remembered about them and from them.';

COMMENT ON COLUMN memory.v_users.agent_id IS 'The host''s id for the agent.';
COMMENT ON COLUMN memory.v_users.user_id IS 'The host''s id for the user; with agent_id the key of the view.';
COMMENT ON COLUMN memory.v_users.stands_for IS 'The user for whom this id stands, after people.merge; null: it stands for itself.';
COMMENT ON COLUMN memory.v_users.conversations IS 'Number of conversations in which they have written, or that were begun for them.';
COMMENT ON COLUMN memory.v_users.messages IS 'Number of messages that they wrote, including those whose text is gone.';
COMMENT ON COLUMN memory.v_users.first_seen_at IS 'When they said the first of their messages; null: they wrote none.';
COMMENT ON COLUMN memory.v_users.last_seen_at IS 'When they last said something; null: they wrote none.';
COMMENT ON COLUMN memory.v_users.observations IS 'Number of active observations in their own scopes.';
COMMENT ON COLUMN memory.v_users.contributed IS 'Number of observations, in any scope and of any status, that their statements support.';
COMMENT ON COLUMN memory.v_users.groups IS 'Number of groups to which they belong now.';
