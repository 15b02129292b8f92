"""Manage groups: who has left one reads no more what was said in its sessions

Frozen: imports nothing of memory_sql.

Revision ID: 5e0a7c93d1b4
Revises: c1d7e35a90b4
Create Date: 2026-11-22 11:00:00+00:00
"""

from __future__ import annotations

import re

import sqlalchemy as sa
from alembic import op

revision = "5e0a7c93d1b4"
down_revision = "c1d7e35a90b4"
branch_labels = None
depends_on = None

LEFT_GROUPS = """
-- memory.left_groups(agent_key, user, as_of): the groups that a user has left. One row per group. By any of the ids that they
-- go by (memory.user_ids) they were a member, by none they are one now. What was said in a session of such a group they may
-- read no more, though they took part. Who comes back has left nothing. By the index of closed memberships: of somebody who
-- has left no group nothing else is read.
CREATE OR REPLACE FUNCTION memory.left_groups(p_agent bigint, p_user text, p_as_of timestamptz DEFAULT NULL)
RETURNS TABLE (group_id text)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT substr(g.owner, 3)
    FROM memory.user_ids(p_agent, p_user, p_as_of) i
    JOIN memory.members m ON m.agent_key = p_agent AND m.user_id = i.user_id AND m.left_at IS NOT NULL
    JOIN memory.scopes g ON g.agent_key = p_agent AND g.scope_id = m.scope_id
    WHERE NOT EXISTS (
        SELECT
        FROM memory.user_ids(p_agent, p_user, p_as_of) j
        JOIN memory.members o ON o.agent_key = p_agent AND o.user_id = j.user_id AND o.left_at IS NULL
        WHERE o.scope_id = m.scope_id
    )
    GROUP BY g.owner
$$;

COMMENT ON FUNCTION memory.left_groups(bigint, text, timestamptz) IS
    'The groups that a user was a member of and is no more; one row per group.';
"""

VISIBLE_SESSIONS = """
-- memory.visible_sessions(agent, user, as_of): the sessions whose messages a principal may see. One row per session, with
-- whose it is (`messages.owner`). Beside memory.visible_scopes the only place where that is decided. Who took part sees
-- what was said; who is a member of the group in which it was said, and wasn't there, doesn't. Nor does, of a session that
-- takes place in a group, who has left that group (memory.left_groups). A user is all the ids that they go by
-- (memory.user_ids). Nothing of a session that is excluded, nor of one that wasn't there at as_of.
-- The agent, the ids and the groups are looked up once a query, whatever it begins with.
CREATE OR REPLACE FUNCTION memory.visible_sessions(p_agent text, p_user text, p_as_of timestamptz DEFAULT NULL)
RETURNS TABLE (agent_key bigint, session_id text, owner text)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT s.agent_key, s.session_id, 'u:' || s.user_id
    FROM memory.sessions s
    WHERE s.agent_key = (SELECT a.agent_key FROM memory.agents a WHERE a.agent_id = p_agent)
      AND s.participants && ARRAY(
          SELECT i.user_id
          FROM memory.agents a
          CROSS JOIN LATERAL memory.user_ids(a.agent_key, p_user, p_as_of) i
          WHERE a.agent_id = p_agent
      )
      AND NOT s.excluded
      AND NOT s.group_ids && ARRAY(
          SELECT l.group_id
          FROM memory.agents a
          CROSS JOIN LATERAL memory.left_groups(a.agent_key, p_user, p_as_of) l
          WHERE a.agent_id = p_agent
      )
      AND (p_as_of IS NULL OR s.created_at <= p_as_of)
$$;

COMMENT ON FUNCTION memory.visible_sessions(text, text, timestamptz) IS
    'The sessions whose messages a user of an agent may see; one row per session.';
"""

VISIBLE_SESSIONS_BEFORE = """
-- memory.visible_sessions(agent, user, as_of): the sessions whose messages a principal may see. One row per session, with
-- whose it is (`messages.owner`). Beside memory.visible_scopes the only place where that is decided. Who took part sees
-- what was said; who is a member of the group in which it was said, and wasn't there, doesn't. A user is all the ids that
-- they go by (memory.user_ids). Nothing of a session that is excluded, nor of one that wasn't there at as_of.
-- The agent and the ids are looked up once a query, whatever it begins with.
CREATE OR REPLACE FUNCTION memory.visible_sessions(p_agent text, p_user text, p_as_of timestamptz DEFAULT NULL)
RETURNS TABLE (agent_key bigint, session_id text, owner text)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT s.agent_key, s.session_id, 'u:' || s.user_id
    FROM memory.sessions s
    WHERE s.agent_key = (SELECT a.agent_key FROM memory.agents a WHERE a.agent_id = p_agent)
      AND s.participants && ARRAY(
          SELECT i.user_id
          FROM memory.agents a
          CROSS JOIN LATERAL memory.user_ids(a.agent_key, p_user, p_as_of) i
          WHERE a.agent_id = p_agent
      )
      AND NOT s.excluded
      AND (p_as_of IS NULL OR s.created_at <= p_as_of)
$$;

COMMENT ON FUNCTION memory.visible_sessions(text, text, timestamptz) IS
    'The sessions whose messages a user of an agent may see; one row per session.';
"""

VISIBLE_SCOPES = """
-- memory.visible_scopes(agent, user, session, as_of): what a principal may see. One row per scope. The only place where
-- that is decided; every read joins it. A null user or agent sees nothing. A group is visible to whoever is a member now
-- (and was one at as_of); a session's scope to those who took part in it, and have left none of its groups. Inactive scopes
-- are included. A user is all the ids that they go by (memory.user_ids). The agent and the owners are looked up once a
-- query, whatever it begins with.
CREATE OR REPLACE FUNCTION memory.visible_scopes(
    p_agent text, p_user text, p_session text DEFAULT NULL, p_as_of timestamptz DEFAULT NULL
) RETURNS TABLE (agent_key bigint, scope_id bigint)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT s.agent_key, s.scope_id
    FROM memory.scopes s
    WHERE s.agent_key = (SELECT a.agent_key FROM memory.agents a WHERE a.agent_id = p_agent)
      AND p_user IS NOT NULL
      AND s.owner = ANY (
          ARRAY['c', 'a']
          || ARRAY(
              SELECT 'u:' || i.user_id
              FROM memory.agents a
              CROSS JOIN LATERAL memory.user_ids(a.agent_key, p_user, p_as_of) i
              WHERE a.agent_id = p_agent
          )
          || ARRAY(
              SELECT g.owner
              FROM memory.agents a
              CROSS JOIN LATERAL memory.user_ids(a.agent_key, p_user, p_as_of) i
              CROSS JOIN LATERAL (  -- by their keys, in this order, whatever the planner thinks of how many there are
                  SELECT m.scope_id
                  FROM memory.members m
                  WHERE m.agent_key = a.agent_key AND m.user_id = i.user_id AND m.left_at IS NULL
                    AND (p_as_of IS NULL OR m.joined_at <= p_as_of)
                  OFFSET 0
              ) m
              CROSS JOIN LATERAL (
                  SELECT g.owner
                  FROM memory.scopes g
                  WHERE g.agent_key = a.agent_key AND g.scope_id = m.scope_id AND g.kind = 'group'
                  LIMIT 1
              ) g
              WHERE a.agent_id = p_agent
          )
          || ARRAY(
              SELECT 's:' || t.session_id
              FROM memory.agents a
              JOIN memory.sessions t ON t.agent_key = a.agent_key
              WHERE a.agent_id = p_agent AND t.session_id = p_session
                AND t.participants && ARRAY(SELECT i.user_id FROM memory.user_ids(a.agent_key, p_user, p_as_of) i)
                AND NOT t.group_ids && ARRAY(SELECT l.group_id FROM memory.left_groups(a.agent_key, p_user, p_as_of) l)
          )
      )
$$;

COMMENT ON FUNCTION memory.visible_scopes(text, text, text, timestamptz) IS
    'The scopes that a user of an agent may see; one row per scope.';
"""

VISIBLE_SCOPES_BEFORE = """
-- memory.visible_scopes(agent, user, session, as_of): what a principal may see. One row per scope. The only place where
-- that is decided; every read joins it. A null user or agent sees nothing. A group is visible to whoever is a member now
-- (and was one at as_of); a session's scope to those who took part in it. Inactive scopes are included. A user is all the
-- ids that they go by (memory.user_ids). The agent and the owners are looked up once a query, whatever it begins with.
CREATE OR REPLACE FUNCTION memory.visible_scopes(
    p_agent text, p_user text, p_session text DEFAULT NULL, p_as_of timestamptz DEFAULT NULL
) RETURNS TABLE (agent_key bigint, scope_id bigint)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT s.agent_key, s.scope_id
    FROM memory.scopes s
    WHERE s.agent_key = (SELECT a.agent_key FROM memory.agents a WHERE a.agent_id = p_agent)
      AND p_user IS NOT NULL
      AND s.owner = ANY (
          ARRAY['c', 'a']
          || ARRAY(
              SELECT 'u:' || i.user_id
              FROM memory.agents a
              CROSS JOIN LATERAL memory.user_ids(a.agent_key, p_user, p_as_of) i
              WHERE a.agent_id = p_agent
          )
          || ARRAY(
              SELECT g.owner
              FROM memory.agents a
              CROSS JOIN LATERAL memory.user_ids(a.agent_key, p_user, p_as_of) i
              CROSS JOIN LATERAL (  -- by their keys, in this order, whatever the planner thinks of how many there are
                  SELECT m.scope_id
                  FROM memory.members m
                  WHERE m.agent_key = a.agent_key AND m.user_id = i.user_id AND m.left_at IS NULL
                    AND (p_as_of IS NULL OR m.joined_at <= p_as_of)
                  OFFSET 0
              ) m
              CROSS JOIN LATERAL (
                  SELECT g.owner
                  FROM memory.scopes g
                  WHERE g.agent_key = a.agent_key AND g.scope_id = m.scope_id AND g.kind = 'group'
                  LIMIT 1
              ) g
              WHERE a.agent_id = p_agent
          )
          || ARRAY(
              SELECT 's:' || t.session_id
              FROM memory.agents a
              JOIN memory.sessions t ON t.agent_key = a.agent_key
              WHERE a.agent_id = p_agent AND t.session_id = p_session
                AND t.participants && ARRAY(SELECT i.user_id FROM memory.user_ids(a.agent_key, p_user, p_as_of) i)
          )
      )
$$;

COMMENT ON FUNCTION memory.visible_scopes(text, text, text, timestamptz) IS
    'The scopes that a user of an agent may see; one row per scope.';
"""

MY_SCOPES = """
-- memory.my_scopes(): the scopes that the principal of this transaction may see, by memory.visible_scopes; empty for nobody
-- and for the library's own work, which my_agent, my_user_ids, my_left_groups, served_agent and serves_all are there for. These are what row-level
-- policies compare with. They run as their owner, or reading scopes would ask the policy of scopes, which asks them; they
-- take no argument, so they tell a caller nothing but what belongs to the principal. In PL/pgSQL, which keeps their plans:
-- each statement asks them several times.
CREATE OR REPLACE FUNCTION memory.my_scopes() RETURNS bigint[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
AS $$
DECLARE
    v_named jsonb := memory.principal();
BEGIN
    RETURN ARRAY(
        SELECT v.scope_id
        FROM memory.visible_scopes(v_named ->> 'agent', v_named ->> 'user', v_named ->> 'session') v
    );
END
$$;

COMMENT ON FUNCTION memory.my_scopes() IS 'The scopes that the user may see on whose behalf this transaction works.';

-- memory.my_agent(): the key of the user's agent.
CREATE OR REPLACE FUNCTION memory.my_agent() RETURNS bigint
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
AS $$
BEGIN
    RETURN (SELECT a.agent_key FROM memory.agents a WHERE a.agent_id = memory.principal() ->> 'agent');
END
$$;

COMMENT ON FUNCTION memory.my_agent() IS 'The key of the agent whose user this transaction works for.';

-- memory.served_agent(): the key of the agent that the library works for.
CREATE OR REPLACE FUNCTION memory.served_agent() RETURNS bigint
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
AS $$
BEGIN
    RETURN (SELECT a.agent_key FROM memory.agents a WHERE a.agent_id = memory.principal() ->> 'serves');
END
$$;

COMMENT ON FUNCTION memory.served_agent() IS 'The key of the one agent that the library itself works for.';

-- memory.serves_all(): whether the library works for all agents: claiming what is due, verify, the backlog.
CREATE OR REPLACE FUNCTION memory.serves_all() RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT coalesce((memory.principal() ->> 'serves_all')::boolean, false)
$$;

COMMENT ON FUNCTION memory.serves_all() IS 'Whether this transaction is the library''s own work for all agents.';

-- memory.my_user_ids(): the ids that the user goes by.
CREATE OR REPLACE FUNCTION memory.my_user_ids() RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
AS $$
BEGIN
    RETURN ARRAY(SELECT i.user_id FROM memory.user_ids(memory.my_agent(), memory.principal() ->> 'user') i);
END
$$;

COMMENT ON FUNCTION memory.my_user_ids() IS 'The ids of the user on whose behalf this transaction works.';

-- memory.my_left_groups(): the groups that the user has left.
CREATE OR REPLACE FUNCTION memory.my_left_groups() RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
AS $$
BEGIN
    RETURN ARRAY(SELECT l.group_id FROM memory.left_groups(memory.my_agent(), memory.principal() ->> 'user') l);
END
$$;

COMMENT ON FUNCTION memory.my_left_groups() IS
    'The groups that the user has left on whose behalf this transaction works.';
"""

MY_SCOPES_BEFORE = """
-- memory.my_scopes(): the scopes that the principal of this transaction may see, by memory.visible_scopes; empty for nobody
-- and for the library's own work, which my_agent, my_user_ids, served_agent and serves_all are there for. These are what row-level
-- policies compare with. They run as their owner, or reading scopes would ask the policy of scopes, which asks them; they
-- take no argument, so they tell a caller nothing but what belongs to the principal. In PL/pgSQL, which keeps their plans:
-- each statement asks them several times.
CREATE OR REPLACE FUNCTION memory.my_scopes() RETURNS bigint[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
AS $$
DECLARE
    v_named jsonb := memory.principal();
BEGIN
    RETURN ARRAY(
        SELECT v.scope_id
        FROM memory.visible_scopes(v_named ->> 'agent', v_named ->> 'user', v_named ->> 'session') v
    );
END
$$;

COMMENT ON FUNCTION memory.my_scopes() IS 'The scopes that the user may see on whose behalf this transaction works.';

-- memory.my_agent(): the key of the user's agent.
CREATE OR REPLACE FUNCTION memory.my_agent() RETURNS bigint
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
AS $$
BEGIN
    RETURN (SELECT a.agent_key FROM memory.agents a WHERE a.agent_id = memory.principal() ->> 'agent');
END
$$;

COMMENT ON FUNCTION memory.my_agent() IS 'The key of the agent whose user this transaction works for.';

-- memory.served_agent(): the key of the agent that the library works for.
CREATE OR REPLACE FUNCTION memory.served_agent() RETURNS bigint
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
AS $$
BEGIN
    RETURN (SELECT a.agent_key FROM memory.agents a WHERE a.agent_id = memory.principal() ->> 'serves');
END
$$;

COMMENT ON FUNCTION memory.served_agent() IS 'The key of the one agent that the library itself works for.';

-- memory.serves_all(): whether the library works for all agents: claiming what is due, verify, the backlog.
CREATE OR REPLACE FUNCTION memory.serves_all() RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT coalesce((memory.principal() ->> 'serves_all')::boolean, false)
$$;

COMMENT ON FUNCTION memory.serves_all() IS 'Whether this transaction is the library''s own work for all agents.';

-- memory.my_user_ids(): the ids that the user goes by.
CREATE OR REPLACE FUNCTION memory.my_user_ids() RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
AS $$
BEGIN
    RETURN ARRAY(SELECT i.user_id FROM memory.user_ids(memory.my_agent(), memory.principal() ->> 'user') i);
END
$$;

COMMENT ON FUNCTION memory.my_user_ids() IS 'The ids of the user on whose behalf this transaction works.';
"""

ADD_MESSAGES = """
-- memory.add_messages(…): stores the messages that aren't there yet, counts them and says whether the session is due.
-- One row. In one statement for the caller, in its transaction. A message is known by its id within the session, also
-- after its text has gone. Everything is counted under the session's row lock, so that two calls at once can't both miss
-- a threshold. `p_messages` is an array of objects: id, role, user_id, speaker, content, cleaned, weight, eligible,
-- signal, said_at, keyed, search_extra (may be left out). Group scopes are made where missing; the user and the writers
-- become members unless they ever were: somebody who left doesn't come back by a late message, nor by another id that they
-- go by. What is said while the session is excluded is never formed; excluding it refuses what is under way. `p_limits` are settings by name, the agent's
-- own go before them. Wakes the workers when the session is due.
-- Messages that are keyed have their ids from an idempotency key, and `p_next` is the id that one more would have. Where
-- such a call was stored with other messages, nothing is stored and `differs` is the first position (from 0) at which it
-- does; a text that has gone can't differ.
-- Behind walls it is one round trip all the same: it names its principal itself, the library's work for this agent, until it
-- returns; an error takes the setting back with all else.
CREATE OR REPLACE FUNCTION memory.add_messages(
    p_agent text, p_session text, p_user text, p_groups text[], p_messages jsonb,
    p_limits jsonb, p_at timestamptz, p_excluded boolean, p_time_zone text, p_next text,
    OUT accepted integer, OUT last_number bigint, OUT unformed_messages integer, OUT unformed_tokens real,
    OUT unformed_since timestamptz, OUT due_at timestamptz, OUT due_reason text, OUT differs integer
)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_agent bigint;
    v_settings jsonb;
    v_at timestamptz := coalesce(p_at, now());
    v_users text[];
    v_tokens real;
    v_count integer;
    v_signal boolean;
    v_excluded boolean;
    v_included boolean;
    v_session memory.sessions;
    v_before text;
BEGIN
    v_before := memory.enter(p_agent, NULL, NULL, true);
    SELECT a.agent_key, a.settings INTO v_agent, v_settings FROM memory.agents a WHERE a.agent_id = p_agent;
    IF v_agent IS NULL THEN
        INSERT INTO memory.agents (agent_id, created_at) VALUES (p_agent, v_at) ON CONFLICT DO NOTHING;
        SELECT a.agent_key, a.settings INTO STRICT v_agent, v_settings FROM memory.agents a WHERE a.agent_id = p_agent;
    END IF;

    SELECT s.* INTO v_session
    FROM memory.sessions s WHERE s.agent_key = v_agent AND s.session_id = p_session FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        INSERT INTO memory.sessions (agent_key, session_id, user_id, created_at, last_activity_at)
        VALUES (v_agent, p_session, p_user, v_at, v_at)
        ON CONFLICT DO NOTHING;
        SELECT s.* INTO STRICT v_session
        FROM memory.sessions s WHERE s.agent_key = v_agent AND s.session_id = p_session FOR NO KEY UPDATE;
    END IF;

    WITH keyed AS (
        SELECT g.n - 1 AS position, k.message_id IS NOT NULL AS known,
               k.role <> g.role OR k.content <> g.content AS other
        FROM ROWS FROM (jsonb_to_recordset(p_messages) AS (id text, role text, content text, keyed boolean))
            WITH ORDINALITY AS g (id, role, content, keyed, n)
        LEFT JOIN memory.messages k ON k.agent_key = v_agent AND k.session_id = p_session AND k.message_id = g.id
        WHERE p_next IS NOT NULL AND g.keyed
    )
    SELECT min(d.position)
    INTO differs
    FROM (
        SELECT position FROM keyed WHERE other OR (NOT known AND EXISTS (SELECT FROM keyed WHERE known))
        UNION ALL
        SELECT jsonb_array_length(p_messages)
        FROM memory.messages k
        WHERE k.agent_key = v_agent AND k.session_id = p_session AND k.message_id = p_next
          AND EXISTS (SELECT FROM keyed WHERE known)
    ) d;
    IF differs IS NOT NULL THEN
        PERFORM memory.leave(v_before);
        RETURN;
    END IF;

    v_excluded := coalesce(p_excluded, v_session.excluded);
    v_included := v_session.excluded AND NOT v_excluded;
    WITH given AS (
        SELECT DISTINCT ON (m.id) m.*
        FROM ROWS FROM (jsonb_to_recordset(p_messages) AS (
            id text, role text, user_id text, speaker text, content text, cleaned text[], weight real,
            eligible boolean, signal text, said_at timestamptz, search_extra text
        )) WITH ORDINALITY AS m (
            id, role, user_id, speaker, content, cleaned, weight, eligible, signal, said_at, search_extra, n
        )
        ORDER BY m.id, m.n
    ), new AS (
        SELECT g.*, row_number() OVER (ORDER BY g.n) AS i
        FROM given g
        WHERE NOT EXISTS (
            SELECT FROM memory.messages k
            WHERE k.agent_key = v_agent AND k.session_id = p_session AND k.message_id = g.id
        )
    ), stored AS (
        INSERT INTO memory.messages (
            agent_key, session_id, number, message_id, role, user_id, speaker, content, cleaned, weight, eligible, signal,
            said_at, created_at, owner, language, search_extra
        )
        SELECT v_agent, p_session, v_session.last_number + i, id, role, user_id, speaker, content, cleaned, weight,
               eligible AND NOT v_excluded, CASE WHEN NOT v_excluded THEN signal END, coalesce(said_at, v_at), v_at,
               'u:' || v_session.user_id, coalesce((p_limits || v_settings)->>'language', 'english'),
               coalesce(search_extra, '')
        FROM new
        RETURNING user_id, weight, eligible, signal
    )
    SELECT count(*), count(*) FILTER (WHERE eligible), coalesce(sum(weight) FILTER (WHERE eligible), 0),
           bool_or(signal IS NOT NULL),
           array_agg(DISTINCT user_id) FILTER (WHERE user_id IS NOT NULL)
    INTO accepted, v_count, v_tokens, v_signal, v_users
    FROM stored;

    v_users := ARRAY(SELECT DISTINCT u FROM unnest(v_session.participants || v_users || p_user) u WHERE u IS NOT NULL ORDER BY u);
    last_number := v_session.last_number + accepted;
    unformed_messages := v_session.unformed_messages + v_count;
    unformed_tokens := v_session.unformed_tokens + v_tokens;
    unformed_since := least(v_session.unformed_since, CASE WHEN v_count > 0 THEN v_at END);
    IF v_included THEN  -- what was said before it was excluded is due as ever
        v_signal := v_signal OR EXISTS (
            SELECT
            FROM memory.messages m
            WHERE m.agent_key = v_agent AND m.session_id = p_session AND m.number > v_session.formed_number
              AND m.eligible AND m.signal IS NOT NULL
        );
    END IF;
    IF v_session.due_reason = 'retry' OR (accepted = 0 AND NOT v_included) THEN
        due_at := v_session.due_at;
        due_reason := v_session.due_reason;
    ELSE
        SELECT f.due_at, f.due_reason
        INTO due_at, due_reason
        FROM memory.formation_due(
            unformed_messages, unformed_tokens, v_signal OR v_session.due_reason = 'signal', unformed_since,
            p_limits || v_settings, v_at
        ) f;
        IF due_reason = v_session.due_reason AND due_reason <> 'cold' THEN
            due_at := v_session.due_at;
        END IF;
    END IF;
    IF v_excluded OR v_session.dead_run_id IS NOT NULL THEN
        due_at := NULL;
        due_reason := NULL;
    END IF;
    IF due_at <= v_at AND v_session.due_at IS DISTINCT FROM due_at THEN
        PERFORM pg_notify('memory_due', '');
    END IF;

    UPDATE memory.sessions s
    SET last_number = add_messages.last_number,
        unformed_messages = add_messages.unformed_messages,
        unformed_tokens = add_messages.unformed_tokens,
        unformed_since = add_messages.unformed_since,
        due_at = add_messages.due_at,
        due_reason = add_messages.due_reason,
        excluded = v_excluded,
        epoch = s.epoch + (v_excluded AND NOT v_session.excluded)::integer,
        time_zone = coalesce(p_time_zone, s.time_zone),
        participants = v_users,
        group_ids = ARRAY(SELECT DISTINCT g FROM unnest(s.group_ids || p_groups) g ORDER BY g),
        last_activity_at = CASE WHEN accepted > 0 THEN v_at ELSE s.last_activity_at END,
        text_since = least(s.text_since, CASE WHEN accepted > 0 THEN v_at END)
    WHERE s.agent_key = v_agent AND s.session_id = p_session;

    IF v_excluded AND NOT v_session.excluded THEN  -- also an answer that was stored and waits to be applied
        UPDATE memory.runs r
        SET state = 'failed', answer = NULL, error_code = 'abandoned', error = 'the session was excluded', finished_at = v_at
        WHERE r.agent_key = v_agent AND r.session_id = p_session AND r.state IN ('running', 'answered');
    END IF;

    IF cardinality(p_groups) > 0 THEN
        INSERT INTO memory.scopes (agent_key, kind, owner, display_name, language, created_at)
        SELECT v_agent, 'group', 'g:' || g, g, coalesce((p_limits || v_settings)->>'language', 'english'), v_at
        FROM (SELECT DISTINCT unnest(p_groups) AS g ORDER BY 1) groups
        ON CONFLICT (agent_key, owner, name) DO NOTHING;

        INSERT INTO memory.members (agent_key, scope_id, user_id, joined_at)
        SELECT v_agent, s.scope_id, u, v_at
        FROM memory.scopes s
        CROSS JOIN unnest(v_users) u
        WHERE s.agent_key = v_agent AND s.owner = ANY (SELECT 'g:' || g FROM unnest(p_groups) g) AND s.name = ''
          AND NOT EXISTS (
              SELECT FROM memory.members m WHERE m.agent_key = v_agent AND m.scope_id = s.scope_id AND m.user_id = u
          )
          AND NOT EXISTS (  -- nor by another id of somebody who left
              WITH RECURSIVE person (user_id) AS (
                  SELECT u
                  UNION
                  SELECT l.into_user_id
                  FROM person p
                  JOIN memory.user_aliases l ON l.agent_key = v_agent AND l.user_id = p.user_id AND l.ended_at IS NULL
              )
              SELECT
              FROM person p
              CROSS JOIN LATERAL memory.left_groups(v_agent, p.user_id) l
              WHERE s.owner = 'g:' || l.group_id
          )
        ON CONFLICT DO NOTHING;
    END IF;
    PERFORM memory.leave(v_before);
END
$$;

COMMENT ON FUNCTION memory.add_messages(
    text, text, text, text[], jsonb, jsonb, timestamptz, boolean, text, text
) IS 'Stores the messages that are new, once, and says whether the session is due; one row.';
"""

ADD_MESSAGES_BEFORE = """
-- memory.add_messages(…): stores the messages that aren't there yet, counts them and says whether the session is due.
-- One row. In one statement for the caller, in its transaction. A message is known by its id within the session, also
-- after its text has gone. Everything is counted under the session's row lock, so that two calls at once can't both miss
-- a threshold. `p_messages` is an array of objects: id, role, user_id, speaker, content, cleaned, weight, eligible,
-- signal, said_at, keyed, search_extra (may be left out). Group scopes are made where missing; the user and the writers
-- become members unless they ever were: somebody who left doesn't come back by a late message. What is said while the
-- session is excluded is never formed; excluding it refuses what is under way. `p_limits` are settings by name, the agent's
-- own go before them. Wakes the workers when the session is due.
-- Messages that are keyed have their ids from an idempotency key, and `p_next` is the id that one more would have. Where
-- such a call was stored with other messages, nothing is stored and `differs` is the first position (from 0) at which it
-- does; a text that has gone can't differ.
-- Behind walls it is one round trip all the same: it names its principal itself, the library's work for this agent, until it
-- returns; an error takes the setting back with all else.
CREATE OR REPLACE FUNCTION memory.add_messages(
    p_agent text, p_session text, p_user text, p_groups text[], p_messages jsonb,
    p_limits jsonb, p_at timestamptz, p_excluded boolean, p_time_zone text, p_next text,
    OUT accepted integer, OUT last_number bigint, OUT unformed_messages integer, OUT unformed_tokens real,
    OUT unformed_since timestamptz, OUT due_at timestamptz, OUT due_reason text, OUT differs integer
)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_agent bigint;
    v_settings jsonb;
    v_at timestamptz := coalesce(p_at, now());
    v_users text[];
    v_tokens real;
    v_count integer;
    v_signal boolean;
    v_excluded boolean;
    v_included boolean;
    v_session memory.sessions;
    v_before text;
BEGIN
    v_before := memory.enter(p_agent, NULL, NULL, true);
    SELECT a.agent_key, a.settings INTO v_agent, v_settings FROM memory.agents a WHERE a.agent_id = p_agent;
    IF v_agent IS NULL THEN
        INSERT INTO memory.agents (agent_id, created_at) VALUES (p_agent, v_at) ON CONFLICT DO NOTHING;
        SELECT a.agent_key, a.settings INTO STRICT v_agent, v_settings FROM memory.agents a WHERE a.agent_id = p_agent;
    END IF;

    SELECT s.* INTO v_session
    FROM memory.sessions s WHERE s.agent_key = v_agent AND s.session_id = p_session FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        INSERT INTO memory.sessions (agent_key, session_id, user_id, created_at, last_activity_at)
        VALUES (v_agent, p_session, p_user, v_at, v_at)
        ON CONFLICT DO NOTHING;
        SELECT s.* INTO STRICT v_session
        FROM memory.sessions s WHERE s.agent_key = v_agent AND s.session_id = p_session FOR NO KEY UPDATE;
    END IF;

    WITH keyed AS (
        SELECT g.n - 1 AS position, k.message_id IS NOT NULL AS known,
               k.role <> g.role OR k.content <> g.content AS other
        FROM ROWS FROM (jsonb_to_recordset(p_messages) AS (id text, role text, content text, keyed boolean))
            WITH ORDINALITY AS g (id, role, content, keyed, n)
        LEFT JOIN memory.messages k ON k.agent_key = v_agent AND k.session_id = p_session AND k.message_id = g.id
        WHERE p_next IS NOT NULL AND g.keyed
    )
    SELECT min(d.position)
    INTO differs
    FROM (
        SELECT position FROM keyed WHERE other OR (NOT known AND EXISTS (SELECT FROM keyed WHERE known))
        UNION ALL
        SELECT jsonb_array_length(p_messages)
        FROM memory.messages k
        WHERE k.agent_key = v_agent AND k.session_id = p_session AND k.message_id = p_next
          AND EXISTS (SELECT FROM keyed WHERE known)
    ) d;
    IF differs IS NOT NULL THEN
        PERFORM memory.leave(v_before);
        RETURN;
    END IF;

    v_excluded := coalesce(p_excluded, v_session.excluded);
    v_included := v_session.excluded AND NOT v_excluded;
    WITH given AS (
        SELECT DISTINCT ON (m.id) m.*
        FROM ROWS FROM (jsonb_to_recordset(p_messages) AS (
            id text, role text, user_id text, speaker text, content text, cleaned text[], weight real,
            eligible boolean, signal text, said_at timestamptz, search_extra text
        )) WITH ORDINALITY AS m (
            id, role, user_id, speaker, content, cleaned, weight, eligible, signal, said_at, search_extra, n
        )
        ORDER BY m.id, m.n
    ), new AS (
        SELECT g.*, row_number() OVER (ORDER BY g.n) AS i
        FROM given g
        WHERE NOT EXISTS (
            SELECT FROM memory.messages k
            WHERE k.agent_key = v_agent AND k.session_id = p_session AND k.message_id = g.id
        )
    ), stored AS (
        INSERT INTO memory.messages (
            agent_key, session_id, number, message_id, role, user_id, speaker, content, cleaned, weight, eligible, signal,
            said_at, created_at, owner, language, search_extra
        )
        SELECT v_agent, p_session, v_session.last_number + i, id, role, user_id, speaker, content, cleaned, weight,
               eligible AND NOT v_excluded, CASE WHEN NOT v_excluded THEN signal END, coalesce(said_at, v_at), v_at,
               'u:' || v_session.user_id, coalesce((p_limits || v_settings)->>'language', 'english'),
               coalesce(search_extra, '')
        FROM new
        RETURNING user_id, weight, eligible, signal
    )
    SELECT count(*), count(*) FILTER (WHERE eligible), coalesce(sum(weight) FILTER (WHERE eligible), 0),
           bool_or(signal IS NOT NULL),
           array_agg(DISTINCT user_id) FILTER (WHERE user_id IS NOT NULL)
    INTO accepted, v_count, v_tokens, v_signal, v_users
    FROM stored;

    v_users := ARRAY(SELECT DISTINCT u FROM unnest(v_session.participants || v_users || p_user) u WHERE u IS NOT NULL ORDER BY u);
    last_number := v_session.last_number + accepted;
    unformed_messages := v_session.unformed_messages + v_count;
    unformed_tokens := v_session.unformed_tokens + v_tokens;
    unformed_since := least(v_session.unformed_since, CASE WHEN v_count > 0 THEN v_at END);
    IF v_included THEN  -- what was said before it was excluded is due as ever
        v_signal := v_signal OR EXISTS (
            SELECT
            FROM memory.messages m
            WHERE m.agent_key = v_agent AND m.session_id = p_session AND m.number > v_session.formed_number
              AND m.eligible AND m.signal IS NOT NULL
        );
    END IF;
    IF v_session.due_reason = 'retry' OR (accepted = 0 AND NOT v_included) THEN
        due_at := v_session.due_at;
        due_reason := v_session.due_reason;
    ELSE
        SELECT f.due_at, f.due_reason
        INTO due_at, due_reason
        FROM memory.formation_due(
            unformed_messages, unformed_tokens, v_signal OR v_session.due_reason = 'signal', unformed_since,
            p_limits || v_settings, v_at
        ) f;
        IF due_reason = v_session.due_reason AND due_reason <> 'cold' THEN
            due_at := v_session.due_at;
        END IF;
    END IF;
    IF v_excluded OR v_session.dead_run_id IS NOT NULL THEN
        due_at := NULL;
        due_reason := NULL;
    END IF;
    IF due_at <= v_at AND v_session.due_at IS DISTINCT FROM due_at THEN
        PERFORM pg_notify('memory_due', '');
    END IF;

    UPDATE memory.sessions s
    SET last_number = add_messages.last_number,
        unformed_messages = add_messages.unformed_messages,
        unformed_tokens = add_messages.unformed_tokens,
        unformed_since = add_messages.unformed_since,
        due_at = add_messages.due_at,
        due_reason = add_messages.due_reason,
        excluded = v_excluded,
        epoch = s.epoch + (v_excluded AND NOT v_session.excluded)::integer,
        time_zone = coalesce(p_time_zone, s.time_zone),
        participants = v_users,
        group_ids = ARRAY(SELECT DISTINCT g FROM unnest(s.group_ids || p_groups) g ORDER BY g),
        last_activity_at = CASE WHEN accepted > 0 THEN v_at ELSE s.last_activity_at END,
        text_since = least(s.text_since, CASE WHEN accepted > 0 THEN v_at END)
    WHERE s.agent_key = v_agent AND s.session_id = p_session;

    IF v_excluded AND NOT v_session.excluded THEN  -- also an answer that was stored and waits to be applied
        UPDATE memory.runs r
        SET state = 'failed', answer = NULL, error_code = 'abandoned', error = 'the session was excluded', finished_at = v_at
        WHERE r.agent_key = v_agent AND r.session_id = p_session AND r.state IN ('running', 'answered');
    END IF;

    IF cardinality(p_groups) > 0 THEN
        INSERT INTO memory.scopes (agent_key, kind, owner, display_name, language, created_at)
        SELECT v_agent, 'group', 'g:' || g, g, coalesce((p_limits || v_settings)->>'language', 'english'), v_at
        FROM (SELECT DISTINCT unnest(p_groups) AS g ORDER BY 1) groups
        ON CONFLICT (agent_key, owner, name) DO NOTHING;

        INSERT INTO memory.members (agent_key, scope_id, user_id, joined_at)
        SELECT v_agent, s.scope_id, u, v_at
        FROM memory.scopes s
        CROSS JOIN unnest(v_users) u
        WHERE s.agent_key = v_agent AND s.owner = ANY (SELECT 'g:' || g FROM unnest(p_groups) g) AND s.name = ''
          AND NOT EXISTS (
              SELECT FROM memory.members m WHERE m.agent_key = v_agent AND m.scope_id = s.scope_id AND m.user_id = u
          )
        ON CONFLICT DO NOTHING;
    END IF;
    PERFORM memory.leave(v_before);
END
$$;

COMMENT ON FUNCTION memory.add_messages(
    text, text, text, text[], jsonb, jsonb, timestamptz, boolean, text, text
) IS 'Stores the messages that are new, once, and says whether the session is due; one row.';
"""

POLICIES = """
-- memory: the walls, row-level policies on every table that holds memory. Nobody who hasn't said on whose behalf the
-- transaction works (memory.enter) sees or writes a row. The library's own work reaches the rows of its agent, or of all; a
-- user only reads: what lies in the scopes that memory.visible_scopes names, the sessions that they took part in unless they
-- have left a group of it, nothing of runs, events, holds and retrievals. Each (SELECT …) is computed once a query, not once a row. The owner of the tables passes, until
-- `memory-sql db roles` forces the policies on it as well: a host with one role runs without walls.

ALTER TABLE memory.agents ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.agents USING (
    (SELECT memory.serves_all()) OR agent_id = (SELECT memory.principal() ->> 'serves')
);
CREATE POLICY users ON memory.agents FOR SELECT USING (agent_id = (SELECT memory.principal() ->> 'agent'));

ALTER TABLE memory.scopes ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.scopes USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.scopes FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);

ALTER TABLE memory.members ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.members USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.members FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);

ALTER TABLE memory.observations ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.observations USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.observations FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);

ALTER TABLE memory.observation_states ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.observation_states USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.observation_states FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);

ALTER TABLE memory.consolidations ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.consolidations USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.consolidations FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);

ALTER TABLE memory.evidence ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.evidence USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.evidence FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);

ALTER TABLE memory.lineage ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.lineage USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.lineage FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
    AND source_scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);

ALTER TABLE memory.sessions ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.sessions USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.sessions FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND participants && (SELECT memory.my_user_ids())
    AND NOT group_ids && (SELECT memory.my_left_groups())
);

ALTER TABLE memory.messages ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.messages USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.messages FOR SELECT USING (
    EXISTS (  -- of the sessions that the user may see, as in memory.visible_sessions: their policy is asked here as well
        SELECT
        FROM memory.sessions s
        WHERE s.agent_key = messages.agent_key AND s.session_id = messages.session_id AND NOT s.excluded
    )
);

ALTER TABLE memory.runs ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.runs USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);

ALTER TABLE memory.events ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.events USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);

ALTER TABLE memory.holds ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.holds USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);

ALTER TABLE memory.user_aliases ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.user_aliases USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.user_aliases FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND into_user_id = ANY ((SELECT memory.my_user_ids())::text[])
);

ALTER TABLE memory.retrievals ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.retrievals USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
"""

SESSIONS_BEFORE = """
CREATE POLICY users ON memory.sessions FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND participants && (SELECT memory.my_user_ids())
)
"""


def upgrade() -> None:
    op.create_index(
        "members_left_at_idx",
        "members",
        ["agent_key", "user_id"],
        schema="memory",
        postgresql_where=sa.text("left_at IS NOT NULL"),
    )
    for script in (LEFT_GROUPS, VISIBLE_SCOPES, VISIBLE_SESSIONS, MY_SCOPES, ADD_MESSAGES):
        run(script)
    op.execute("DROP POLICY users ON memory.sessions")
    for statement in statements_of(POLICIES):
        if "POLICY users ON memory.sessions " in statement:  # the others stand
            op.execute(statement)


def downgrade() -> None:
    op.execute("DROP POLICY users ON memory.sessions")
    op.execute(SESSIONS_BEFORE)
    for script in (ADD_MESSAGES_BEFORE, MY_SCOPES_BEFORE, VISIBLE_SESSIONS_BEFORE, VISIBLE_SCOPES_BEFORE):
        run(script)
    op.execute("DROP FUNCTION memory.my_left_groups()")
    op.execute("DROP FUNCTION memory.left_groups(bigint, text, timestamptz)")
    op.drop_index("members_left_at_idx", "members", schema="memory")


def run(script: str) -> None:
    for statement in statements_of(script):
        op.execute(statement)


def statements_of(script: str) -> list[str]:
    """asyncpg prepares one statement at a time; each begins at the start of a line, bodies are indented."""
    return re.split(r";\s*\n(?=(?:CREATE|COMMENT|REVOKE|ALTER|--) ?)", script.strip().removesuffix(";"))
