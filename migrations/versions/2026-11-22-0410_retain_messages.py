"""Retain messages: whose they are, their words for searching, who may see them, and for how long

Frozen: imports nothing of memory_sql.

Adding the generated column writes `messages` anew, some 25 µs a message, and nobody else reads or writes it meanwhile.

Revision ID: c7e20d5f83ab
Revises: 8a4c0e92f7d6
Create Date: 2026-11-22 04:10:00+00:00
"""

from __future__ import annotations

import re

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "c7e20d5f83ab"
down_revision = "8a4c0e92f7d6"
branch_labels = None
depends_on = None

LANGUAGES = "'arabic', 'armenian', 'basque', 'catalan', 'danish', 'dutch', 'english', 'finnish', 'french', 'german', 'greek', 'hindi', 'hungarian', 'indonesian', 'irish', 'italian', 'lithuanian', 'nepali', 'norwegian', 'portuguese', 'romanian', 'russian', 'serbian', 'simple', 'spanish', 'swedish', 'tamil', 'turkish', 'yiddish'"
SEARCH_VECTOR = "(CASE language WHEN 'arabic' THEN to_tsvector('pg_catalog.arabic'::regconfig, left(content, 100000)) WHEN 'armenian' THEN to_tsvector('pg_catalog.armenian'::regconfig, left(content, 100000)) WHEN 'basque' THEN to_tsvector('pg_catalog.basque'::regconfig, left(content, 100000)) WHEN 'catalan' THEN to_tsvector('pg_catalog.catalan'::regconfig, left(content, 100000)) WHEN 'danish' THEN to_tsvector('pg_catalog.danish'::regconfig, left(content, 100000)) WHEN 'dutch' THEN to_tsvector('pg_catalog.dutch'::regconfig, left(content, 100000)) WHEN 'english' THEN to_tsvector('pg_catalog.english'::regconfig, left(content, 100000)) WHEN 'finnish' THEN to_tsvector('pg_catalog.finnish'::regconfig, left(content, 100000)) WHEN 'french' THEN to_tsvector('pg_catalog.french'::regconfig, left(content, 100000)) WHEN 'german' THEN to_tsvector('pg_catalog.german'::regconfig, left(content, 100000)) WHEN 'greek' THEN to_tsvector('pg_catalog.greek'::regconfig, left(content, 100000)) WHEN 'hindi' THEN to_tsvector('pg_catalog.hindi'::regconfig, left(content, 100000)) WHEN 'hungarian' THEN to_tsvector('pg_catalog.hungarian'::regconfig, left(content, 100000)) WHEN 'indonesian' THEN to_tsvector('pg_catalog.indonesian'::regconfig, left(content, 100000)) WHEN 'irish' THEN to_tsvector('pg_catalog.irish'::regconfig, left(content, 100000)) WHEN 'italian' THEN to_tsvector('pg_catalog.italian'::regconfig, left(content, 100000)) WHEN 'lithuanian' THEN to_tsvector('pg_catalog.lithuanian'::regconfig, left(content, 100000)) WHEN 'nepali' THEN to_tsvector('pg_catalog.nepali'::regconfig, left(content, 100000)) WHEN 'norwegian' THEN to_tsvector('pg_catalog.norwegian'::regconfig, left(content, 100000)) WHEN 'portuguese' THEN to_tsvector('pg_catalog.portuguese'::regconfig, left(content, 100000)) WHEN 'romanian' THEN to_tsvector('pg_catalog.romanian'::regconfig, left(content, 100000)) WHEN 'russian' THEN to_tsvector('pg_catalog.russian'::regconfig, left(content, 100000)) WHEN 'serbian' THEN to_tsvector('pg_catalog.serbian'::regconfig, left(content, 100000)) WHEN 'simple' THEN to_tsvector('pg_catalog.simple'::regconfig, left(content, 100000)) WHEN 'spanish' THEN to_tsvector('pg_catalog.spanish'::regconfig, left(content, 100000)) WHEN 'swedish' THEN to_tsvector('pg_catalog.swedish'::regconfig, left(content, 100000)) WHEN 'tamil' THEN to_tsvector('pg_catalog.tamil'::regconfig, left(content, 100000)) WHEN 'turkish' THEN to_tsvector('pg_catalog.turkish'::regconfig, left(content, 100000)) WHEN 'yiddish' THEN to_tsvector('pg_catalog.yiddish'::regconfig, left(content, 100000)) END) || to_tsvector('pg_catalog.simple'::regconfig, left(search_extra, 100000))"
MADE = (
    "end_retention(text, text, double precision, timestamptz, bigint, text, bigint, bigint)",
    "read_messages(text, text, text, bigint, integer, timestamptz, text, bigint, bigint, double precision, timestamptz)",
    "held_messages(bigint)",
    "held_observations(bigint)",
    "retained_messages(text, text, double precision, timestamptz, timestamptz)",
    "visible_sessions(text, text, timestamptz)",
    "retention_start(jsonb, double precision, timestamptz)",
)

RETENTION_START = """
-- memory.retention_start(settings, days, at): since when messages keep their texts, counted back from `at` by an agent's own
-- setting, else by `days`, those of the process; null there is for ever.
CREATE OR REPLACE FUNCTION memory.retention_start(p_settings jsonb, p_days double precision, p_at timestamptz)
RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT coalesce(
        p_at - make_interval(
            secs => 86400 * CASE
                WHEN p_settings ? 'message_retention_days' THEN (p_settings ->> 'message_retention_days')::double precision
                ELSE p_days
            END
        ),
        '-infinity'
    )
$$;

COMMENT ON FUNCTION memory.retention_start(jsonb, double precision, timestamptz) IS
    'Since when the messages of an agent keep their texts; -infinity: for ever.';
"""

VISIBLE_SESSIONS = """
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

RETAINED_MESSAGES = """
-- memory.retained_messages(agent, user, days, at, as_of): the messages that a search may show a principal. One row per
-- message. Of the sessions that they may see (memory.visible_sessions): those that have their text, that formation reads,
-- whose retention isn't over at `at`, whether or not the sweep has come by, that had been stored at as_of, and that stand
-- behind no quarantined observation. `days` as in memory.retention_start. It is planned as part of the query that asks it:
-- columns that aren't read cost nothing, and conditions on agent_key, session_id and number find messages by their key.
CREATE OR REPLACE FUNCTION memory.retained_messages(
    p_agent text, p_user text, p_days double precision, p_at timestamptz, p_as_of timestamptz DEFAULT NULL
) RETURNS TABLE (
    agent_key bigint, session_id text, number bigint, owner text, message_id text, role text, user_id text, speaker text,
    content text, said_at timestamptz, created_at timestamptz, language text, search tsvector
)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT m.agent_key, m.session_id, m.number, m.owner, m.message_id, m.role, m.user_id, m.speaker, m.content, m.said_at,
           m.created_at, m.language, m.search
    FROM memory.visible_sessions(p_agent, p_user, p_as_of) v
    JOIN memory.messages m ON m.agent_key = v.agent_key AND m.session_id = v.session_id
    WHERE m.content IS NOT NULL
      AND m.eligible
      AND m.created_at >= (
          SELECT memory.retention_start(a.settings, p_days, p_at) FROM memory.agents a WHERE a.agent_id = p_agent
      )
      AND (p_as_of IS NULL OR m.created_at <= p_as_of)
      AND NOT EXISTS (
          SELECT
          FROM memory.evidence e
          JOIN memory.observation_states t
              ON t.agent_key = e.agent_key AND t.scope_id = e.scope_id AND t.seq = e.seq AND t.status = 'quarantined'
          WHERE e.agent_key = m.agent_key AND e.session_id = m.session_id AND e.number = m.number
      )
$$;

COMMENT ON FUNCTION memory.retained_messages(text, text, double precision, timestamptz, timestamptz) IS
    'The messages that a search may show a user of an agent; one row per message.';
"""

HELD = """
-- memory.held_observations(agent_key): the observations that an open hold keeps. One row per observation. A hold on a user
-- covers the ids that stand for them: what lies in their own scopes, and what they said.
CREATE OR REPLACE FUNCTION memory.held_observations(p_agent bigint) RETURNS TABLE (scope_id bigint, seq integer)
LANGUAGE sql STABLE
AS $$
    SELECT o.scope_id, o.seq
    FROM memory.observations o
    JOIN memory.scopes s ON s.agent_key = o.agent_key AND s.scope_id = o.scope_id
    WHERE o.agent_key = p_agent
      AND EXISTS (SELECT FROM memory.holds h WHERE h.agent_key = p_agent AND h.released_at IS NULL)
      AND EXISTS (
          SELECT FROM memory.holds h
          WHERE h.agent_key = p_agent AND h.released_at IS NULL AND CASE h.kind
              WHEN 'observation' THEN h.target = format('o%s-%s', o.scope_id, o.seq)
              WHEN 'group' THEN s.owner = 'g:' || h.target
              WHEN 'session' THEN o.session_id = h.target
              ELSE EXISTS (
                  SELECT FROM memory.user_ids(p_agent, h.target) i
                  WHERE s.owner = 'u:' || i.user_id OR i.user_id = ANY (o.related_users)
              )
          END
      )
$$;

COMMENT ON FUNCTION memory.held_observations(bigint) IS
    'The observations that an open hold keeps; one row per observation.';

-- memory.held_messages(agent_key): the messages that an open hold keeps. One row per message: of a held user, group or
-- session, and what stands behind an observation that is held. Without an open hold nothing is looked through.
CREATE OR REPLACE FUNCTION memory.held_messages(p_agent bigint) RETURNS TABLE (session_id text, number bigint)
LANGUAGE sql STABLE
AS $$
    SELECT m.session_id, m.number
    FROM memory.messages m
    JOIN memory.sessions t ON t.agent_key = m.agent_key AND t.session_id = m.session_id
    WHERE m.agent_key = p_agent
      AND EXISTS (SELECT FROM memory.holds h WHERE h.agent_key = p_agent AND h.released_at IS NULL)
      AND (
          EXISTS (
              SELECT FROM memory.holds h
              WHERE h.agent_key = p_agent AND h.released_at IS NULL AND CASE h.kind
                  WHEN 'user' THEN m.user_id IN (SELECT i.user_id FROM memory.user_ids(p_agent, h.target) i)
                  WHEN 'group' THEN h.target = ANY (t.group_ids)
                  WHEN 'session' THEN m.session_id = h.target
              END
          )
          OR EXISTS (
              SELECT FROM memory.evidence e
              JOIN memory.held_observations(p_agent) o ON o.scope_id = e.scope_id AND o.seq = e.seq
              WHERE e.agent_key = p_agent AND e.session_id = m.session_id AND e.number = m.number
          )
      )
$$;

COMMENT ON FUNCTION memory.held_messages(bigint) IS 'The messages that an open hold keeps; one row per message.';
"""

READ_MESSAGES = """
-- memory.read_messages(agent, user, session, scope_id, seq, before, limit, days, at): the messages that a principal may read, newest
-- first. One row per message, of those of memory.retained_messages. With a session, only its; with scope_id and seq, only
-- what that observation comes from, if they may see it. `before…` is the last one of the page before. It runs as its owner
-- and asks who may see what itself: a row-level policy would hide from whom somebody reads which observations of others
-- are quarantined. Planned anew for each call, so that a condition that isn't asked for isn't there.
CREATE OR REPLACE FUNCTION memory.read_messages(
    p_agent text, p_user text, p_session text, p_scope bigint, p_seq integer, p_before timestamptz,
    p_before_session text, p_before_number bigint, p_limit bigint, p_days double precision, p_at timestamptz
) RETURNS TABLE (
    session_id text, message_id text, number bigint, role text, speaker text, user_id text, content text,
    said_at timestamptz
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT m.session_id, m.message_id, m.number, m.role, m.speaker, m.user_id, m.content, m.said_at
    FROM memory.retained_messages(p_agent, p_user, p_days, p_at) m
    WHERE (p_session IS NULL OR m.session_id = p_session)
      AND (
          p_scope IS NULL
          OR (m.session_id, m.number) IN (
              SELECT e.session_id, e.number
              FROM memory.visible_scopes(p_agent, p_user) v
              JOIN memory.evidence e ON e.agent_key = v.agent_key AND e.scope_id = v.scope_id
              WHERE e.scope_id = p_scope AND e.seq = p_seq
          )
      )
      AND (p_before IS NULL OR (m.said_at, m.session_id, m.number) < (p_before, p_before_session, p_before_number))
    ORDER BY m.said_at DESC, m.session_id DESC, m.number DESC
    LIMIT p_limit;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.read_messages(
    text, text, text, bigint, integer, timestamptz, text, bigint, bigint, double precision, timestamptz
) FROM PUBLIC;

COMMENT ON FUNCTION memory.read_messages(
    text, text, text, bigint, integer, timestamptz, text, bigint, bigint, double precision, timestamptz
) IS 'The messages that a user of an agent may read, newest first; one row per message.';
"""

END_RETENTION = """
-- memory.end_retention(agent, session, days, at, after_agent, after_session, sessions, messages): takes the texts from
-- messages whose retention is over. One row: how many messages, of how many sessions, and the last of these. Of one
-- agent and session, or of all where they are null, after the session (after_agent, after_session), in the order of keys, at most so
-- many sessions and messages. `days` as in memory.retention_start. The row stays as a stub: evidence leads to it, and the
-- message is known when it comes again.
-- Kept is what no formation has read yet, unless the session is excluded, and what an open hold covers. No epoch rises:
-- a formation that is under way reads what this leaves alone. It locks the sessions, and their agents against new holds,
-- and passes over those that somebody else has locked: so it waits for nobody, and several at once share the work. Two
-- steps, since the second must see what was committed before the first had its locks.
CREATE OR REPLACE FUNCTION memory.end_retention(
    p_agent text, p_session text, p_days double precision, p_at timestamptz, p_after_agent bigint, p_after_session text,
    p_sessions bigint, p_messages bigint,
    OUT messages bigint, OUT sessions bigint, OUT last_agent bigint, OUT last_session text
)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_agents bigint[];
    v_sessions text[];
    v_starts timestamptz[];
BEGIN
    SELECT coalesce(array_agg(f.agent_key), '{}'), coalesce(array_agg(f.session_id), '{}'), array_agg(f.start)
    INTO v_agents, v_sessions, v_starts
    FROM (
        SELECT s.agent_key, s.session_id, r.start
        FROM memory.agents a
        CROSS JOIN LATERAL (SELECT memory.retention_start(a.settings, p_days, p_at) AS start) r
        JOIN memory.sessions s ON s.agent_key = a.agent_key AND s.text_since < r.start
        WHERE (p_agent IS NULL OR a.agent_id = p_agent) AND (p_session IS NULL OR s.session_id = p_session)
          AND (s.agent_key, s.session_id) > (p_after_agent, p_after_session)
        ORDER BY s.agent_key, s.session_id
        LIMIT p_sessions
        FOR SHARE OF a SKIP LOCKED FOR NO KEY UPDATE OF s SKIP LOCKED
    ) f;
    sessions := cardinality(v_sessions);
    last_agent := v_agents[sessions];
    last_session := v_sessions[sessions];

    WITH over AS (
        SELECT m.agent_key, m.session_id, m.number, s.formed_number
        FROM unnest(v_agents, v_sessions, v_starts) AS k (agent_key, session_id, start)
        JOIN memory.sessions s ON s.agent_key = k.agent_key AND s.session_id = k.session_id
        JOIN memory.messages m ON m.agent_key = s.agent_key AND m.session_id = s.session_id
        WHERE m.created_at < k.start AND m.content IS NOT NULL
          AND (m.number <= s.formed_number OR NOT m.eligible OR s.excluded)
          AND NOT EXISTS (
              SELECT FROM memory.held_messages(m.agent_key) h WHERE h.session_id = m.session_id AND h.number = m.number
          )
        ORDER BY m.agent_key, m.session_id, m.number
        LIMIT p_messages
    ), gone AS (
        UPDATE memory.messages m
        SET content = NULL, speaker = NULL, search_extra = '', eligible = m.eligible AND m.number <= o.formed_number
        FROM over o
        WHERE m.agent_key = o.agent_key AND m.session_id = o.session_id AND m.number = o.number
        RETURNING m.number
    ) SELECT count(*) INTO messages FROM gone;

    UPDATE memory.sessions s
    SET text_since = m.text_since,
        unformed_messages = CASE WHEN s.excluded THEN m.messages ELSE s.unformed_messages END,
        unformed_tokens = CASE WHEN s.excluded THEN m.tokens ELSE s.unformed_tokens END,
        unformed_since = CASE WHEN s.excluded THEN m.oldest ELSE s.unformed_since END
    FROM unnest(v_agents, v_sessions) AS k (agent_key, session_id)
    CROSS JOIN LATERAL (
        SELECT min(m.created_at) FILTER (WHERE m.content IS NOT NULL) AS text_since,
               count(*) FILTER (WHERE f.is_unformed)::integer AS messages,
               coalesce(sum(m.weight) FILTER (WHERE f.is_unformed), 0)::real AS tokens,
               min(m.created_at) FILTER (WHERE f.is_unformed) AS oldest
        FROM memory.sessions t
        JOIN memory.messages m ON m.agent_key = t.agent_key AND m.session_id = t.session_id
        CROSS JOIN LATERAL (SELECT m.eligible AND m.number > t.formed_number AS is_unformed) f
        WHERE t.agent_key = k.agent_key AND t.session_id = k.session_id
    ) m
    WHERE s.agent_key = k.agent_key AND s.session_id = k.session_id;
END
$$;

COMMENT ON FUNCTION memory.end_retention(
    text, text, double precision, timestamptz, bigint, text, bigint, bigint
) IS 'Takes the texts from messages whose retention is over; one row.';
"""

ADD_MESSAGES = """
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

ADD_MESSAGES_BEFORE = """
-- memory.add_messages(…): stores the messages that aren't there yet, counts them and says whether the session is due.
-- One row. In one statement for the caller, in its transaction. A message is known by its id within the session, also
-- after its text has gone. Everything is counted under the session's row lock, so that two calls at once can't both miss
-- a threshold. `p_messages` is an array of objects: id, role, user_id, speaker, content, cleaned, weight, eligible,
-- signal, said_at, keyed. Group scopes are made where missing; the user and the writers become members unless they ever
-- were: somebody who left doesn't come back by a late message. What is said while the session is excluded is never formed;
-- excluding it refuses what is under way. `p_limits` are settings by name, the agent's own go before them. Wakes the
-- workers when the session is due.
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
            eligible boolean, signal text, said_at timestamptz
        )) WITH ORDINALITY AS m (id, role, user_id, speaker, content, cleaned, weight, eligible, signal, said_at, n)
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
            said_at, created_at
        )
        SELECT v_agent, p_session, v_session.last_number + i, id, role, user_id, speaker, content, cleaned, weight,
               eligible AND NOT v_excluded, CASE WHEN NOT v_excluded THEN signal END, coalesce(said_at, v_at), v_at
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
        last_activity_at = CASE WHEN accepted > 0 THEN v_at ELSE s.last_activity_at END
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

FORGET_CLOSURE = """
-- memory.forget_closure(agent_key, users, sessions, scopes, scope_ids, seqs, session_ids, numbers): all that goes when
-- these are forgotten. One row of arrays; what stands at the same place in `scope_ids` and `seqs` is one observation, in `session_ids` and
-- `numbers` one message. Reads only.
-- Begins with what is asked for: all observations of `scopes`, the observations (scope_ids[i], seqs[i]), all messages of
-- `sessions`, the messages (session_ids[i], numbers[i]), and what `users` said (with the agent's answers to it). Then,
-- until nothing is added:
--   an observation behind which no other person's or the host's word is left. The agent's own doesn't count, nor does,
--   where one of the messages goes that it was made of, another of these: its text holds both;
--   one that was made of an observation that goes (never the other way round);
--   the messages of an observation that goes, but no other user's where `users` are forgotten.
-- What an open hold covers stays, and is counted; one on a user covers the ids that stand for them.
CREATE OR REPLACE FUNCTION memory.forget_closure(
    p_agent bigint, p_users text[], p_sessions text[], p_scopes bigint[], p_scope_ids bigint[], p_seqs integer[],
    p_session_ids text[], p_numbers bigint[],
    OUT scope_ids bigint[], OUT seqs integer[], OUT session_ids text[], OUT numbers bigint[], OUT evidence_ids bigint[],
    OUT held_observations integer, OUT held_messages integer
)
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_column
DECLARE
    v_held_scope_ids bigint[] := '{}';
    v_held_seqs integer[] := '{}';
    v_held_session_ids text[] := '{}';
    v_held_numbers bigint[] := '{}';
    v_round_scope_ids bigint[];
    v_round_seqs integer[];
    v_round_session_ids text[];
    v_round_numbers bigint[];
BEGIN
    IF EXISTS (SELECT FROM memory.holds h WHERE h.agent_key = p_agent AND h.released_at IS NULL) THEN
        SELECT coalesce(array_agg(h.scope_id), '{}'), coalesce(array_agg(h.seq), '{}')
        INTO v_held_scope_ids, v_held_seqs
        FROM memory.held_observations(p_agent) h;
        SELECT coalesce(array_agg(h.session_id), '{}'), coalesce(array_agg(h.number), '{}')
        INTO v_held_session_ids, v_held_numbers
        FROM memory.held_messages(p_agent) h;
    END IF;

    scope_ids := '{}';
    seqs := '{}';
    session_ids := '{}';
    numbers := '{}';
    held_observations := 0;
    held_messages := 0;

    SELECT coalesce(array_agg(o.scope_id), '{}'), coalesce(array_agg(o.seq), '{}')
    INTO v_round_scope_ids, v_round_seqs
    FROM memory.observations o
    WHERE o.agent_key = p_agent AND (
        o.scope_id = ANY (p_scopes) OR (o.scope_id, o.seq) IN (SELECT * FROM unnest(p_scope_ids, p_seqs))
    );
    -- The agent's turn answers the newest user's turn before it.
    SELECT coalesce(array_agg(m.session_id), '{}'), coalesce(array_agg(m.number), '{}')
    INTO v_round_session_ids, v_round_numbers
    FROM (
        SELECT m.session_id, m.number, m.content IS NOT NULL OR m.speaker IS NOT NULL AS has_text,
               max(m.number) FILTER (WHERE m.user_id IS NOT NULL) OVER (
                   PARTITION BY m.session_id ORDER BY m.number
               ) AS asked
        FROM memory.messages m
        WHERE m.agent_key = p_agent AND (
            m.session_id = ANY (p_sessions) OR m.session_id = ANY (p_session_ids)
            OR m.session_id IN (SELECT u.session_id FROM memory.messages u WHERE u.agent_key = p_agent AND u.user_id = ANY (p_users))
        )
    ) m
    LEFT JOIN memory.messages q ON q.agent_key = p_agent AND q.session_id = m.session_id AND q.number = m.asked
    WHERE (
            m.session_id = ANY (p_sessions) OR q.user_id = ANY (p_users)
            OR (m.session_id, m.number) IN (SELECT * FROM unnest(p_session_ids, p_numbers))
        )
        AND (
            m.has_text
            OR EXISTS (
                SELECT FROM memory.evidence e
                WHERE e.agent_key = p_agent AND e.session_id = m.session_id AND e.number = m.number
            )
        );

    LOOP
        held_observations := held_observations + (
            SELECT count(*)
            FROM unnest(v_round_scope_ids, v_round_seqs) AS r (scope_id, seq)
            JOIN unnest(v_held_scope_ids, v_held_seqs) AS h (scope_id, seq) USING (scope_id, seq)
        );
        held_messages := held_messages + (
            SELECT count(*)
            FROM unnest(v_round_session_ids, v_round_numbers) AS r (session_id, number)
            JOIN unnest(v_held_session_ids, v_held_numbers) AS h (session_id, number) USING (session_id, number)
        );
        SELECT scope_ids || coalesce(array_agg(r.scope_id), '{}'), seqs || coalesce(array_agg(r.seq), '{}')
        INTO scope_ids, seqs
        FROM unnest(v_round_scope_ids, v_round_seqs) AS r (scope_id, seq)
        WHERE (r.scope_id, r.seq) NOT IN (SELECT * FROM unnest(v_held_scope_ids, v_held_seqs));
        SELECT session_ids || coalesce(array_agg(r.session_id), '{}'), numbers || coalesce(array_agg(r.number), '{}')
        INTO session_ids, numbers
        FROM unnest(v_round_session_ids, v_round_numbers) AS r (session_id, number)
        WHERE (r.session_id, r.number) NOT IN (SELECT * FROM unnest(v_held_session_ids, v_held_numbers));

        SELECT coalesce(array_agg(e.evidence_id), '{}')
        INTO evidence_ids
        FROM memory.evidence e
        WHERE e.agent_key = p_agent
          AND (e.scope_id, e.seq) NOT IN (SELECT * FROM unnest(v_held_scope_ids, v_held_seqs))
          AND (
              e.user_id = ANY (p_users)
              OR (e.scope_id, e.seq) IN (SELECT * FROM unnest(scope_ids, seqs))
              OR (e.session_id, e.number) IN (SELECT * FROM unnest(session_ids, numbers))
          );

        SELECT coalesce(array_agg(o.scope_id), '{}'), coalesce(array_agg(o.seq), '{}')
        INTO v_round_scope_ids, v_round_seqs
        FROM (
            SELECT e.scope_id, e.seq
            FROM (
                SELECT e.*, bool_or(e.is_removed AND e.is_origin) OVER (PARTITION BY e.scope_id, e.seq) AS lost_an_origin
                FROM (
                    SELECT e.scope_id, e.seq, e.session_id IS NULL OR e.user_id IS NOT NULL AS is_somebodys_word,
                           r.evidence_id IS NOT NULL AS is_removed,
                           coalesce(e.session_id = o.session_id AND m.message_id = ANY (o.message_ids), false) AS is_origin
                    FROM (
                        SELECT DISTINCT scope_id, seq
                        FROM memory.evidence
                        JOIN unnest(evidence_ids) AS r (evidence_id) USING (evidence_id)
                        WHERE agent_key = p_agent
                    ) c
                    JOIN memory.observations o ON o.agent_key = p_agent AND (o.scope_id, o.seq) = (c.scope_id, c.seq)
                    JOIN memory.evidence e ON e.agent_key = p_agent AND (e.scope_id, e.seq) = (c.scope_id, c.seq)
                    LEFT JOIN memory.messages m
                        ON m.agent_key = p_agent AND (m.session_id, m.number) = (e.session_id, e.number)
                    LEFT JOIN unnest(evidence_ids) AS r (evidence_id) ON r.evidence_id = e.evidence_id
                ) e
            ) e
            GROUP BY e.scope_id, e.seq
            HAVING NOT bool_or(
                e.is_somebodys_word AND NOT e.is_removed AND NOT (e.is_origin AND e.lost_an_origin)
            )
            UNION
            SELECT l.scope_id, l.seq
            FROM memory.lineage l
            WHERE l.agent_key = p_agent AND (l.source_scope_id, l.source_seq) IN (SELECT * FROM unnest(scope_ids, seqs))
        ) o
        WHERE (o.scope_id, o.seq) NOT IN (SELECT * FROM unnest(scope_ids, seqs))
          AND (o.scope_id, o.seq) NOT IN (SELECT * FROM unnest(v_held_scope_ids, v_held_seqs));

        SELECT coalesce(array_agg(m.session_id), '{}'), coalesce(array_agg(m.number), '{}')
        INTO v_round_session_ids, v_round_numbers
        FROM memory.messages m
        WHERE m.agent_key = p_agent
          AND (cardinality(p_users) = 0 OR m.user_id IS NULL OR m.user_id = ANY (p_users))
          AND (m.session_id, m.number) IN (
              SELECT e.session_id, e.number
              FROM memory.evidence e
              JOIN unnest(scope_ids, seqs) AS k (scope_id, seq) USING (scope_id, seq)
              WHERE e.agent_key = p_agent AND e.number IS NOT NULL
                AND NOT EXISTS (
                    SELECT FROM memory.lineage l
                    WHERE l.agent_key = p_agent AND l.scope_id = e.scope_id AND l.seq = e.seq
                )
          )
          AND (m.session_id, m.number) NOT IN (SELECT * FROM unnest(session_ids, numbers))
          AND (m.session_id, m.number) NOT IN (SELECT * FROM unnest(v_held_session_ids, v_held_numbers));

        EXIT WHEN cardinality(v_round_scope_ids) = 0 AND cardinality(v_round_session_ids) = 0;
    END LOOP;
END
$$;

COMMENT ON FUNCTION memory.forget_closure(bigint, text[], text[], bigint[], bigint[], integer[], text[], bigint[]) IS
    'What goes when users, sessions, scopes or observations are forgotten; one row of arrays.';
"""

FORGET_CLOSURE_BEFORE = """
-- memory.forget_closure(agent_key, users, sessions, scopes, scope_ids, seqs, session_ids, numbers): all that goes when
-- these are forgotten. One row of arrays; what stands at the same place in `scope_ids` and `seqs` is one observation, in `session_ids` and
-- `numbers` one message. Reads only.
-- Begins with what is asked for: all observations of `scopes`, the observations (scope_ids[i], seqs[i]), all messages of
-- `sessions`, the messages (session_ids[i], numbers[i]), and what `users` said (with the agent's answers to it). Then,
-- until nothing is added:
--   an observation behind which no other person's or the host's word is left. The agent's own doesn't count, nor does,
--   where one of the messages goes that it was made of, another of these: its text holds both;
--   one that was made of an observation that goes (never the other way round);
--   the messages of an observation that goes, but no other user's where `users` are forgotten.
-- What an open hold covers stays, and is counted; one on a user covers the ids that stand for them.
CREATE OR REPLACE FUNCTION memory.forget_closure(
    p_agent bigint, p_users text[], p_sessions text[], p_scopes bigint[], p_scope_ids bigint[], p_seqs integer[],
    p_session_ids text[], p_numbers bigint[],
    OUT scope_ids bigint[], OUT seqs integer[], OUT session_ids text[], OUT numbers bigint[], OUT evidence_ids bigint[],
    OUT held_observations integer, OUT held_messages integer
)
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_column
DECLARE
    v_held_scope_ids bigint[] := '{}';
    v_held_seqs integer[] := '{}';
    v_held_session_ids text[] := '{}';
    v_held_numbers bigint[] := '{}';
    v_round_scope_ids bigint[];
    v_round_seqs integer[];
    v_round_session_ids text[];
    v_round_numbers bigint[];
BEGIN
    IF EXISTS (SELECT FROM memory.holds h WHERE h.agent_key = p_agent AND h.released_at IS NULL) THEN
        SELECT coalesce(array_agg(o.scope_id), '{}'), coalesce(array_agg(o.seq), '{}')
        INTO v_held_scope_ids, v_held_seqs
        FROM memory.observations o
        JOIN memory.scopes s USING (agent_key, scope_id)
        WHERE o.agent_key = p_agent AND EXISTS (
            SELECT FROM memory.holds h
            WHERE h.agent_key = p_agent AND h.released_at IS NULL AND CASE h.kind
                WHEN 'observation' THEN h.target = format('o%s-%s', o.scope_id, o.seq)
                WHEN 'group' THEN s.owner = 'g:' || h.target
                WHEN 'session' THEN o.session_id = h.target
                ELSE EXISTS (
                    SELECT FROM memory.user_ids(p_agent, h.target) i
                    WHERE s.owner = 'u:' || i.user_id OR i.user_id = ANY (o.related_users)
                )
            END
        );
        SELECT coalesce(array_agg(m.session_id), '{}'), coalesce(array_agg(m.number), '{}')
        INTO v_held_session_ids, v_held_numbers
        FROM memory.messages m
        JOIN memory.sessions t USING (agent_key, session_id)
        WHERE m.agent_key = p_agent AND (
            EXISTS (
                SELECT FROM memory.holds h
                WHERE h.agent_key = p_agent AND h.released_at IS NULL AND CASE h.kind
                    WHEN 'user' THEN m.user_id IN (SELECT i.user_id FROM memory.user_ids(p_agent, h.target) i)
                    WHEN 'group' THEN h.target = ANY (t.group_ids)
                    WHEN 'session' THEN m.session_id = h.target
                END
            )
            OR EXISTS (
                SELECT FROM memory.evidence e
                JOIN unnest(v_held_scope_ids, v_held_seqs) AS k (scope_id, seq) USING (scope_id, seq)
                WHERE e.agent_key = p_agent AND e.session_id = m.session_id AND e.number = m.number
            )
        );
    END IF;

    scope_ids := '{}';
    seqs := '{}';
    session_ids := '{}';
    numbers := '{}';
    held_observations := 0;
    held_messages := 0;

    SELECT coalesce(array_agg(o.scope_id), '{}'), coalesce(array_agg(o.seq), '{}')
    INTO v_round_scope_ids, v_round_seqs
    FROM memory.observations o
    WHERE o.agent_key = p_agent AND (
        o.scope_id = ANY (p_scopes) OR (o.scope_id, o.seq) IN (SELECT * FROM unnest(p_scope_ids, p_seqs))
    );
    -- The agent's turn answers the newest user's turn before it.
    SELECT coalesce(array_agg(m.session_id), '{}'), coalesce(array_agg(m.number), '{}')
    INTO v_round_session_ids, v_round_numbers
    FROM (
        SELECT m.session_id, m.number, m.content IS NOT NULL OR m.speaker IS NOT NULL AS has_text,
               max(m.number) FILTER (WHERE m.user_id IS NOT NULL) OVER (
                   PARTITION BY m.session_id ORDER BY m.number
               ) AS asked
        FROM memory.messages m
        WHERE m.agent_key = p_agent AND (
            m.session_id = ANY (p_sessions) OR m.session_id = ANY (p_session_ids)
            OR m.session_id IN (SELECT u.session_id FROM memory.messages u WHERE u.agent_key = p_agent AND u.user_id = ANY (p_users))
        )
    ) m
    LEFT JOIN memory.messages q ON q.agent_key = p_agent AND q.session_id = m.session_id AND q.number = m.asked
    WHERE (
            m.session_id = ANY (p_sessions) OR q.user_id = ANY (p_users)
            OR (m.session_id, m.number) IN (SELECT * FROM unnest(p_session_ids, p_numbers))
        )
        AND (
            m.has_text
            OR EXISTS (
                SELECT FROM memory.evidence e
                WHERE e.agent_key = p_agent AND e.session_id = m.session_id AND e.number = m.number
            )
        );

    LOOP
        held_observations := held_observations + (
            SELECT count(*)
            FROM unnest(v_round_scope_ids, v_round_seqs) AS r (scope_id, seq)
            JOIN unnest(v_held_scope_ids, v_held_seqs) AS h (scope_id, seq) USING (scope_id, seq)
        );
        held_messages := held_messages + (
            SELECT count(*)
            FROM unnest(v_round_session_ids, v_round_numbers) AS r (session_id, number)
            JOIN unnest(v_held_session_ids, v_held_numbers) AS h (session_id, number) USING (session_id, number)
        );
        SELECT scope_ids || coalesce(array_agg(r.scope_id), '{}'), seqs || coalesce(array_agg(r.seq), '{}')
        INTO scope_ids, seqs
        FROM unnest(v_round_scope_ids, v_round_seqs) AS r (scope_id, seq)
        WHERE (r.scope_id, r.seq) NOT IN (SELECT * FROM unnest(v_held_scope_ids, v_held_seqs));
        SELECT session_ids || coalesce(array_agg(r.session_id), '{}'), numbers || coalesce(array_agg(r.number), '{}')
        INTO session_ids, numbers
        FROM unnest(v_round_session_ids, v_round_numbers) AS r (session_id, number)
        WHERE (r.session_id, r.number) NOT IN (SELECT * FROM unnest(v_held_session_ids, v_held_numbers));

        SELECT coalesce(array_agg(e.evidence_id), '{}')
        INTO evidence_ids
        FROM memory.evidence e
        WHERE e.agent_key = p_agent
          AND (e.scope_id, e.seq) NOT IN (SELECT * FROM unnest(v_held_scope_ids, v_held_seqs))
          AND (
              e.user_id = ANY (p_users)
              OR (e.scope_id, e.seq) IN (SELECT * FROM unnest(scope_ids, seqs))
              OR (e.session_id, e.number) IN (SELECT * FROM unnest(session_ids, numbers))
          );

        SELECT coalesce(array_agg(o.scope_id), '{}'), coalesce(array_agg(o.seq), '{}')
        INTO v_round_scope_ids, v_round_seqs
        FROM (
            SELECT e.scope_id, e.seq
            FROM (
                SELECT e.*, bool_or(e.is_removed AND e.is_origin) OVER (PARTITION BY e.scope_id, e.seq) AS lost_an_origin
                FROM (
                    SELECT e.scope_id, e.seq, e.session_id IS NULL OR e.user_id IS NOT NULL AS is_somebodys_word,
                           r.evidence_id IS NOT NULL AS is_removed,
                           coalesce(e.session_id = o.session_id AND m.message_id = ANY (o.message_ids), false) AS is_origin
                    FROM (
                        SELECT DISTINCT scope_id, seq
                        FROM memory.evidence
                        JOIN unnest(evidence_ids) AS r (evidence_id) USING (evidence_id)
                        WHERE agent_key = p_agent
                    ) c
                    JOIN memory.observations o ON o.agent_key = p_agent AND (o.scope_id, o.seq) = (c.scope_id, c.seq)
                    JOIN memory.evidence e ON e.agent_key = p_agent AND (e.scope_id, e.seq) = (c.scope_id, c.seq)
                    LEFT JOIN memory.messages m
                        ON m.agent_key = p_agent AND (m.session_id, m.number) = (e.session_id, e.number)
                    LEFT JOIN unnest(evidence_ids) AS r (evidence_id) ON r.evidence_id = e.evidence_id
                ) e
            ) e
            GROUP BY e.scope_id, e.seq
            HAVING NOT bool_or(
                e.is_somebodys_word AND NOT e.is_removed AND NOT (e.is_origin AND e.lost_an_origin)
            )
            UNION
            SELECT l.scope_id, l.seq
            FROM memory.lineage l
            WHERE l.agent_key = p_agent AND (l.source_scope_id, l.source_seq) IN (SELECT * FROM unnest(scope_ids, seqs))
        ) o
        WHERE (o.scope_id, o.seq) NOT IN (SELECT * FROM unnest(scope_ids, seqs))
          AND (o.scope_id, o.seq) NOT IN (SELECT * FROM unnest(v_held_scope_ids, v_held_seqs));

        SELECT coalesce(array_agg(m.session_id), '{}'), coalesce(array_agg(m.number), '{}')
        INTO v_round_session_ids, v_round_numbers
        FROM memory.messages m
        WHERE m.agent_key = p_agent
          AND (cardinality(p_users) = 0 OR m.user_id IS NULL OR m.user_id = ANY (p_users))
          AND (m.session_id, m.number) IN (
              SELECT e.session_id, e.number
              FROM memory.evidence e
              JOIN unnest(scope_ids, seqs) AS k (scope_id, seq) USING (scope_id, seq)
              WHERE e.agent_key = p_agent AND e.number IS NOT NULL
                AND NOT EXISTS (
                    SELECT FROM memory.lineage l
                    WHERE l.agent_key = p_agent AND l.scope_id = e.scope_id AND l.seq = e.seq
                )
          )
          AND (m.session_id, m.number) NOT IN (SELECT * FROM unnest(session_ids, numbers))
          AND (m.session_id, m.number) NOT IN (SELECT * FROM unnest(v_held_session_ids, v_held_numbers));

        EXIT WHEN cardinality(v_round_scope_ids) = 0 AND cardinality(v_round_session_ids) = 0;
    END LOOP;
END
$$;

COMMENT ON FUNCTION memory.forget_closure(bigint, text[], text[], bigint[], bigint[], integer[], text[], bigint[]) IS
    'What goes when users, sessions, scopes or observations are forgotten; one row of arrays.';
"""

ERASE = """
-- memory.erase(agent_key, scope_ids, seqs, session_ids, numbers, evidence_ids, scopes, users, at): takes out of the
-- tables what `memory.forget_closure` told, and says how many rows of each kind. The only place that deletes. Belongs at
-- the end of a forgetting: the caller holds the locks on the sessions and scopes concerned and has rewound their texts.
-- Observations, their states, evidence and lineage, and the tainted versions go. Of messages the key stays, without a
-- word. What others stand behind as well stays and doesn't name `users` any more. Answers go that a model gave while it
-- was shown any of this. What was superseded by what goes is left to the next one in line; where there is none, to the
-- caller. `scopes` lose also their name and guidance, `users` their memberships. It runs as its owner, who may delete where
-- the application may not, and row-level policies hold for that one too: only what the principal of the transaction serves.
CREATE OR REPLACE FUNCTION memory.erase(
    p_agent bigint, p_scope_ids bigint[], p_seqs integer[], p_session_ids text[], p_numbers bigint[],
    p_evidence_ids bigint[], p_scopes bigint[], p_users text[], p_at timestamptz
) RETURNS TABLE (what text, counted bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_touched bigint[] := ARRAY(SELECT DISTINCT x FROM unnest(p_scope_ids || p_scopes) x ORDER BY x);
    v_sessions text[] := ARRAY(SELECT DISTINCT x FROM unnest(p_session_ids) x ORDER BY x);
BEGIN
    PERFORM FROM memory.agents a WHERE a.agent_key = p_agent FOR KEY SHARE;  -- which a user may not
    IF NOT FOUND THEN  -- behind walls, where nobody has named the principal: better an error than nothing erased
        RAISE EXCEPTION 'this transaction does not work for agent %', p_agent USING ERRCODE = 'insufficient_privilege';
    END IF;

    RETURN QUERY
    WITH gone AS (
        DELETE FROM memory.consolidations c
        USING memory.tainted_versions(p_agent, p_scopes, p_scope_ids, p_seqs) t
        WHERE c.agent_key = p_agent AND c.scope_id = t.scope_id AND c.version = t.version
        RETURNING c.version
    ) SELECT 'consolidations', count(*) FROM gone;

    RETURN QUERY
    WITH gone AS (
        DELETE FROM memory.lineage l
        USING unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
        WHERE l.agent_key = p_agent
          AND ((l.scope_id, l.seq) = (k.scope_id, k.seq) OR (l.source_scope_id, l.source_seq) = (k.scope_id, k.seq))
        RETURNING l.seq
    ) SELECT 'lineage', count(*) FROM gone;

    RETURN QUERY
    WITH gone AS (
        DELETE FROM memory.evidence e
        USING unnest(p_evidence_ids) AS k (evidence_id)
        WHERE e.agent_key = p_agent AND e.evidence_id = k.evidence_id
        RETURNING e.scope_id, e.seq
    ), left_by_others AS (
        UPDATE memory.observations o
        SET speaker = NULL, related_users = ARRAY(SELECT u FROM unnest(o.related_users) u WHERE u <> ALL (p_users))
        FROM (SELECT DISTINCT scope_id, seq FROM gone) g
        WHERE o.agent_key = p_agent AND o.scope_id = g.scope_id AND o.seq = g.seq AND o.related_users && p_users
    ) SELECT 'evidence', count(*) FROM gone;

    -- What was superseded by what goes stays superseded by the next one in line that doesn't.
    WITH RECURSIVE heirs (scope_id, seq, heir) AS (
        SELECT k.scope_id, k.seq, g.superseded_by
        FROM unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
        LEFT JOIN memory.observation_states g ON g.agent_key = p_agent AND (g.scope_id, g.seq) = (k.scope_id, k.seq)
        UNION
        SELECT h.scope_id, h.seq, g.superseded_by
        FROM heirs h
        LEFT JOIN memory.observation_states g ON g.agent_key = p_agent AND (g.scope_id, g.seq) = (h.scope_id, h.heir)
        WHERE (h.scope_id, h.heir) IN (SELECT * FROM unnest(p_scope_ids, p_seqs))
    )
    UPDATE memory.observation_states t
    SET superseded_by = h.heir
    FROM heirs h
    WHERE t.agent_key = p_agent AND (t.scope_id, t.superseded_by) = (h.scope_id, h.seq) AND h.heir IS NOT NULL
      AND (h.scope_id, h.heir) NOT IN (SELECT * FROM unnest(p_scope_ids, p_seqs));

    DELETE FROM memory.observation_states t
    USING unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
    WHERE t.agent_key = p_agent AND t.scope_id = k.scope_id AND t.seq = k.seq;

    RETURN QUERY
    WITH gone AS (
        DELETE FROM memory.observations o
        USING unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
        WHERE o.agent_key = p_agent AND o.scope_id = k.scope_id AND o.seq = k.seq
        RETURNING o.run_id
    ), counted AS (
        UPDATE memory.runs r
        SET forgotten = r.forgotten + g.observations
        FROM (SELECT run_id, count(*)::integer AS observations FROM gone WHERE run_id IS NOT NULL GROUP BY run_id) g
        WHERE r.agent_key = p_agent AND r.run_id = g.run_id
    ) SELECT 'observations', count(*) FROM gone;

    RETURN QUERY
    WITH gone AS (
        UPDATE memory.messages m
        SET content = NULL, speaker = NULL, search_extra = '', signal = NULL,
            eligible = m.eligible AND m.number <= t.formed_number
        FROM unnest(p_session_ids, p_numbers) AS k (session_id, number), memory.sessions t
        WHERE m.agent_key = p_agent AND m.session_id = k.session_id AND m.number = k.number
          AND t.agent_key = p_agent AND t.session_id = k.session_id
        RETURNING m.number
    ) SELECT 'messages', count(*) FROM gone;

    -- What a model was shown of this, its answer may hold; what it was shown is listed in `seen`.
    RETURN QUERY
    WITH gone AS (
        UPDATE memory.runs r
        SET state = CASE WHEN r.finished_at IS NULL THEN 'failed' ELSE r.state END,
            error_code = CASE WHEN r.finished_at IS NULL THEN 'forgotten' ELSE r.error_code END,
            error = CASE WHEN r.finished_at IS NULL THEN 'something that it was shown was forgotten' ELSE r.error END,
            finished_at = coalesce(r.finished_at, p_at),
            answer = NULL,
            seen = '{}'
        WHERE r.agent_key = p_agent AND (r.answer IS NOT NULL OR r.seen <> '{}' OR r.finished_at IS NULL) AND (
            r.session_id = ANY (v_sessions) OR r.scope_id = ANY (v_touched)
            OR EXISTS (SELECT FROM jsonb_object_keys(r.seen -> 'scopes') AS s WHERE s::bigint = ANY (v_touched))
        )
        RETURNING r.run_id
    ) SELECT 'runs', count(*) FROM gone;

    UPDATE memory.events v
    SET reason = NULL
    FROM unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
    WHERE v.agent_key = p_agent AND v.scope_id = k.scope_id AND v.seq = k.seq AND v.reason IS NOT NULL;

    UPDATE memory.sessions t
    SET epoch = t.epoch + 1,
        unformed_messages = coalesce(m.messages, 0),
        unformed_tokens = coalesce(m.tokens, 0),
        unformed_since = m.oldest,
        due_at = CASE WHEN m.messages > 0 THEN t.due_at END,
        due_reason = CASE WHEN m.messages > 0 THEN t.due_reason END
    FROM unnest(v_sessions) AS k (session_id)
    LEFT JOIN LATERAL (
        SELECT count(*)::integer AS messages, sum(m.weight)::real AS tokens, min(m.created_at) AS oldest
        FROM memory.messages m
        JOIN memory.sessions f USING (agent_key, session_id)
        WHERE m.agent_key = p_agent AND m.session_id = k.session_id AND m.number > f.formed_number AND m.eligible
    ) m ON true
    WHERE t.agent_key = p_agent AND t.session_id = k.session_id;

    UPDATE memory.scopes s
    SET epoch = s.epoch + 1,
        display_name = CASE WHEN s.scope_id = ANY (p_scopes) THEN NULL ELSE s.display_name END,
        extraction_prompt = CASE WHEN s.scope_id = ANY (p_scopes) THEN NULL ELSE s.extraction_prompt END,
        consolidation_prompt = CASE WHEN s.scope_id = ANY (p_scopes) THEN NULL ELSE s.consolidation_prompt END
    WHERE s.agent_key = p_agent AND s.scope_id = ANY (v_touched);

    RETURN QUERY
    WITH gone AS (
        DELETE FROM memory.members m WHERE m.agent_key = p_agent AND m.user_id = ANY (p_users) RETURNING m.user_id
    ) SELECT 'members', count(*) FROM gone;

    DELETE FROM memory.user_aliases u
    WHERE u.agent_key = p_agent AND (u.user_id = ANY (p_users) OR u.into_user_id = ANY (p_users));
END
$$;

REVOKE EXECUTE ON FUNCTION memory.erase(
    bigint, bigint[], integer[], text[], bigint[], bigint[], bigint[], text[], timestamptz
) FROM PUBLIC;

COMMENT ON FUNCTION memory.erase(
    bigint, bigint[], integer[], text[], bigint[], bigint[], bigint[], text[], timestamptz
) IS 'Takes out what is forgotten, and counts it; one row per kind.';
"""

ERASE_BEFORE = """
-- memory.erase(agent_key, scope_ids, seqs, session_ids, numbers, evidence_ids, scopes, users, at): takes out of the
-- tables what `memory.forget_closure` told, and says how many rows of each kind. The only place that deletes. Belongs at
-- the end of a forgetting: the caller holds the locks on the sessions and scopes concerned and has rewound their texts.
-- Observations, their states, evidence and lineage, and the tainted versions go. Of messages the key stays, without a
-- word. What others stand behind as well stays and doesn't name `users` any more. Answers go that a model gave while it
-- was shown any of this. What was superseded by what goes is left to the next one in line; where there is none, to the
-- caller. `scopes` lose also their name and guidance, `users` their memberships. It runs as its owner, who may delete where
-- the application may not, and row-level policies hold for that one too: only what the principal of the transaction serves.
CREATE OR REPLACE FUNCTION memory.erase(
    p_agent bigint, p_scope_ids bigint[], p_seqs integer[], p_session_ids text[], p_numbers bigint[],
    p_evidence_ids bigint[], p_scopes bigint[], p_users text[], p_at timestamptz
) RETURNS TABLE (what text, counted bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_touched bigint[] := ARRAY(SELECT DISTINCT x FROM unnest(p_scope_ids || p_scopes) x ORDER BY x);
    v_sessions text[] := ARRAY(SELECT DISTINCT x FROM unnest(p_session_ids) x ORDER BY x);
BEGIN
    PERFORM FROM memory.agents a WHERE a.agent_key = p_agent FOR KEY SHARE;  -- which a user may not
    IF NOT FOUND THEN  -- behind walls, where nobody has named the principal: better an error than nothing erased
        RAISE EXCEPTION 'this transaction does not work for agent %', p_agent USING ERRCODE = 'insufficient_privilege';
    END IF;

    RETURN QUERY
    WITH gone AS (
        DELETE FROM memory.consolidations c
        USING memory.tainted_versions(p_agent, p_scopes, p_scope_ids, p_seqs) t
        WHERE c.agent_key = p_agent AND c.scope_id = t.scope_id AND c.version = t.version
        RETURNING c.version
    ) SELECT 'consolidations', count(*) FROM gone;

    RETURN QUERY
    WITH gone AS (
        DELETE FROM memory.lineage l
        USING unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
        WHERE l.agent_key = p_agent
          AND ((l.scope_id, l.seq) = (k.scope_id, k.seq) OR (l.source_scope_id, l.source_seq) = (k.scope_id, k.seq))
        RETURNING l.seq
    ) SELECT 'lineage', count(*) FROM gone;

    RETURN QUERY
    WITH gone AS (
        DELETE FROM memory.evidence e
        USING unnest(p_evidence_ids) AS k (evidence_id)
        WHERE e.agent_key = p_agent AND e.evidence_id = k.evidence_id
        RETURNING e.scope_id, e.seq
    ), left_by_others AS (
        UPDATE memory.observations o
        SET speaker = NULL, related_users = ARRAY(SELECT u FROM unnest(o.related_users) u WHERE u <> ALL (p_users))
        FROM (SELECT DISTINCT scope_id, seq FROM gone) g
        WHERE o.agent_key = p_agent AND o.scope_id = g.scope_id AND o.seq = g.seq AND o.related_users && p_users
    ) SELECT 'evidence', count(*) FROM gone;

    -- What was superseded by what goes stays superseded by the next one in line that doesn't.
    WITH RECURSIVE heirs (scope_id, seq, heir) AS (
        SELECT k.scope_id, k.seq, g.superseded_by
        FROM unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
        LEFT JOIN memory.observation_states g ON g.agent_key = p_agent AND (g.scope_id, g.seq) = (k.scope_id, k.seq)
        UNION
        SELECT h.scope_id, h.seq, g.superseded_by
        FROM heirs h
        LEFT JOIN memory.observation_states g ON g.agent_key = p_agent AND (g.scope_id, g.seq) = (h.scope_id, h.heir)
        WHERE (h.scope_id, h.heir) IN (SELECT * FROM unnest(p_scope_ids, p_seqs))
    )
    UPDATE memory.observation_states t
    SET superseded_by = h.heir
    FROM heirs h
    WHERE t.agent_key = p_agent AND (t.scope_id, t.superseded_by) = (h.scope_id, h.seq) AND h.heir IS NOT NULL
      AND (h.scope_id, h.heir) NOT IN (SELECT * FROM unnest(p_scope_ids, p_seqs));

    DELETE FROM memory.observation_states t
    USING unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
    WHERE t.agent_key = p_agent AND t.scope_id = k.scope_id AND t.seq = k.seq;

    RETURN QUERY
    WITH gone AS (
        DELETE FROM memory.observations o
        USING unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
        WHERE o.agent_key = p_agent AND o.scope_id = k.scope_id AND o.seq = k.seq
        RETURNING o.run_id
    ), counted AS (
        UPDATE memory.runs r
        SET forgotten = r.forgotten + g.observations
        FROM (SELECT run_id, count(*)::integer AS observations FROM gone WHERE run_id IS NOT NULL GROUP BY run_id) g
        WHERE r.agent_key = p_agent AND r.run_id = g.run_id
    ) SELECT 'observations', count(*) FROM gone;

    RETURN QUERY
    WITH gone AS (
        UPDATE memory.messages m
        SET content = NULL, speaker = NULL, signal = NULL,
            eligible = m.eligible AND m.number <= t.formed_number
        FROM unnest(p_session_ids, p_numbers) AS k (session_id, number), memory.sessions t
        WHERE m.agent_key = p_agent AND m.session_id = k.session_id AND m.number = k.number
          AND t.agent_key = p_agent AND t.session_id = k.session_id
        RETURNING m.number
    ) SELECT 'messages', count(*) FROM gone;

    -- What a model was shown of this, its answer may hold; what it was shown is listed in `seen`.
    RETURN QUERY
    WITH gone AS (
        UPDATE memory.runs r
        SET state = CASE WHEN r.finished_at IS NULL THEN 'failed' ELSE r.state END,
            error_code = CASE WHEN r.finished_at IS NULL THEN 'forgotten' ELSE r.error_code END,
            error = CASE WHEN r.finished_at IS NULL THEN 'something that it was shown was forgotten' ELSE r.error END,
            finished_at = coalesce(r.finished_at, p_at),
            answer = NULL,
            seen = '{}'
        WHERE r.agent_key = p_agent AND (r.answer IS NOT NULL OR r.seen <> '{}' OR r.finished_at IS NULL) AND (
            r.session_id = ANY (v_sessions) OR r.scope_id = ANY (v_touched)
            OR EXISTS (SELECT FROM jsonb_object_keys(r.seen -> 'scopes') AS s WHERE s::bigint = ANY (v_touched))
        )
        RETURNING r.run_id
    ) SELECT 'runs', count(*) FROM gone;

    UPDATE memory.events v
    SET reason = NULL
    FROM unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
    WHERE v.agent_key = p_agent AND v.scope_id = k.scope_id AND v.seq = k.seq AND v.reason IS NOT NULL;

    UPDATE memory.sessions t
    SET epoch = t.epoch + 1,
        unformed_messages = coalesce(m.messages, 0),
        unformed_tokens = coalesce(m.tokens, 0),
        unformed_since = m.oldest,
        due_at = CASE WHEN m.messages > 0 THEN t.due_at END,
        due_reason = CASE WHEN m.messages > 0 THEN t.due_reason END
    FROM unnest(v_sessions) AS k (session_id)
    LEFT JOIN LATERAL (
        SELECT count(*)::integer AS messages, sum(m.weight)::real AS tokens, min(m.created_at) AS oldest
        FROM memory.messages m
        JOIN memory.sessions f USING (agent_key, session_id)
        WHERE m.agent_key = p_agent AND m.session_id = k.session_id AND m.number > f.formed_number AND m.eligible
    ) m ON true
    WHERE t.agent_key = p_agent AND t.session_id = k.session_id;

    UPDATE memory.scopes s
    SET epoch = s.epoch + 1,
        display_name = CASE WHEN s.scope_id = ANY (p_scopes) THEN NULL ELSE s.display_name END,
        extraction_prompt = CASE WHEN s.scope_id = ANY (p_scopes) THEN NULL ELSE s.extraction_prompt END,
        consolidation_prompt = CASE WHEN s.scope_id = ANY (p_scopes) THEN NULL ELSE s.consolidation_prompt END
    WHERE s.agent_key = p_agent AND s.scope_id = ANY (v_touched);

    RETURN QUERY
    WITH gone AS (
        DELETE FROM memory.members m WHERE m.agent_key = p_agent AND m.user_id = ANY (p_users) RETURNING m.user_id
    ) SELECT 'members', count(*) FROM gone;

    DELETE FROM memory.user_aliases u
    WHERE u.agent_key = p_agent AND (u.user_id = ANY (p_users) OR u.into_user_id = ANY (p_users));
END
$$;

REVOKE EXECUTE ON FUNCTION memory.erase(
    bigint, bigint[], integer[], text[], bigint[], bigint[], bigint[], text[], timestamptz
) FROM PUBLIC;

COMMENT ON FUNCTION memory.erase(
    bigint, bigint[], integer[], text[], bigint[], bigint[], bigint[], text[], timestamptz
) IS 'Takes out what is forgotten, and counts it; one row per kind.';
"""

TEXT_STATISTICS = """
-- memory.text_statistics: not a function. Keeps the planner's statistics free of remembered text: ANALYZE would copy the
-- commonest values of a column into pg_statistic, where they outlive their rows.
DO $$
DECLARE
    v_column record;
BEGIN
    FOR v_column IN
        SELECT * FROM (VALUES
            ('messages', 'content'), ('messages', 'speaker'), ('messages', 'search_extra'), ('messages', 'search'),
            ('observations', 'content'), ('observations', 'speaker'),
            ('observations', 'tags'), ('observations', 'metadata'), ('observations', 'search_extra'),
            ('observations', 'search'), ('observations', 'fact_key'), ('consolidations', 'content'),
            ('consolidations', 'contradictions'), ('scopes', 'consolidation'), ('scopes', 'display_name'),
            ('scopes', 'extraction_prompt'), ('scopes', 'consolidation_prompt'), ('runs', 'answer'), ('events', 'reason'),
            ('holds', 'reason')
        ) AS c (table_name, column_name)
    LOOP
        EXECUTE format(
            'ALTER TABLE memory.%I ALTER COLUMN %I SET STATISTICS 0', v_column.table_name, v_column.column_name
        );
    END LOOP;
END
$$;
"""

POLICIES = """
-- memory: the walls, row-level policies on every table that holds memory. Nobody who hasn't said on whose behalf the
-- transaction works (memory.enter) sees or writes a row. The library's own work reaches the rows of its agent, or of all; a
-- user only reads: what lies in the scopes that memory.visible_scopes names, the sessions that they took part in, nothing of
-- runs, events and holds. Each (SELECT …) is computed once a query, not once a row. The owner of the tables passes, until
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
"""

POLICY_BEFORE = """
CREATE POLICY users ON memory.messages FOR SELECT USING (
    EXISTS (  -- of the sessions that the user may see: their policy is asked here as well
        SELECT FROM memory.sessions s WHERE s.agent_key = messages.agent_key AND s.session_id = messages.session_id
    )
)
"""


def upgrade() -> None:
    op.add_column(
        "sessions",
        sa.Column(
            "text_since",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When the oldest message arrived that still has its text, or earlier; null: none has.",
        ),
        schema="memory",
    )
    for column in (
        sa.Column(
            "owner",
            sa.Text(),
            nullable=True,
            comment="Whose conversation it stands in: u:<user>, by the session's user.",
        ),
        sa.Column(
            "language",
            sa.Text(),
            server_default=sa.text("'english'"),
            nullable=False,
            comment="Text-search configuration.",
        ),
        sa.Column(
            "search_extra",
            sa.Text(),
            server_default=sa.text("''"),
            nullable=False,
            comment="What the language's parser would miss: identifiers, n-grams, folded forms.",
        ),
    ):
        op.add_column("messages", column, schema="memory")
    fill()
    op.alter_column("messages", "owner", nullable=False, schema="memory")
    op.create_check_constraint(op.f("messages_owner_check"), "messages", "owner LIKE 'u:_%'", schema="memory")
    op.create_check_constraint(
        op.f("messages_language_check"), "messages", f"language IN ({LANGUAGES})", schema="memory"
    )
    op.add_column(
        "messages",
        sa.Column(
            "search",
            postgresql.TSVECTOR(),
            sa.Computed(SEARCH_VECTOR, persisted=True),
            nullable=True,
            comment="What full-text search sees; null once the text has gone.",
        ),
        schema="memory",
    )
    op.create_index(
        "sessions_participants_idx",
        "sessions",
        ["participants"],
        schema="memory",
        postgresql_using="gin",
        postgresql_with={"fastupdate": "off"},
    )
    op.create_index(
        "sessions_text_since_idx",
        "sessions",
        ["agent_key", "text_since"],
        schema="memory",
        postgresql_where=sa.text("text_since IS NOT NULL"),
    )
    for script in (
        RETENTION_START,
        VISIBLE_SESSIONS,
        RETAINED_MESSAGES,
        HELD,
        FORGET_CLOSURE,
        ADD_MESSAGES,
        ERASE,
        READ_MESSAGES,
        END_RETENTION,
        TEXT_STATISTICS,
    ):
        run(script)
    op.execute("DROP POLICY users ON memory.messages")
    op.execute(policy_of_messages())


def fill() -> None:
    op.execute(
        "UPDATE memory.messages m SET owner = 'u:' || s.user_id,"
        " language = coalesce(a.settings ->> 'language', 'english')"
        " FROM memory.sessions s JOIN memory.agents a USING (agent_key)"
        " WHERE s.agent_key = m.agent_key AND s.session_id = m.session_id"
    )
    op.execute(
        "UPDATE memory.sessions s SET text_since = m.text_since FROM ("
        " SELECT agent_key, session_id, min(created_at) AS text_since FROM memory.messages WHERE content IS NOT NULL"
        " GROUP BY agent_key, session_id"
        ") m WHERE s.agent_key = m.agent_key AND s.session_id = m.session_id"
    )


def downgrade() -> None:
    op.execute("DROP POLICY users ON memory.messages")
    op.execute(POLICY_BEFORE)
    for script in (FORGET_CLOSURE_BEFORE, ADD_MESSAGES_BEFORE, ERASE_BEFORE):
        run(script)
    for function in MADE:
        op.execute(f"DROP FUNCTION memory.{function}")
    op.drop_index("sessions_text_since_idx", "sessions", schema="memory")
    op.drop_index("sessions_participants_idx", "sessions", schema="memory")
    for column in ("search", "search_extra", "language", "owner"):
        op.drop_column("messages", column, schema="memory")
    op.drop_column("sessions", "text_since", schema="memory")


def policy_of_messages() -> str:
    found = re.search(r"CREATE POLICY users ON memory\.messages .*?\n\);", POLICIES, re.DOTALL)
    assert found is not None
    return found[0]


def run(script: str) -> None:
    """asyncpg prepares one statement at a time; each begins at the start of a line, bodies are indented."""
    for statement in re.split(r";\s*\n+(?=(?:CREATE|COMMENT|REVOKE|--) ?)", script.strip().removesuffix(";")):
        op.execute(statement)
