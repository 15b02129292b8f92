"""Raise the walls: principals, row-level policies, reads that are one round trip behind them

Frozen: imports nothing of memory_sql.

Revision ID: 5d0c8e41b7a9
Revises: c4e7a91b5d20
Create Date: 2026-11-22 03:40:00+00:00
"""

from __future__ import annotations

import re

from alembic import op

revision = "5d0c8e41b7a9"
down_revision = "c4e7a91b5d20"
branch_labels = None
depends_on = None

PRINCIPAL = """
-- memory.principal(): on whose behalf this transaction works, as memory.enter() said; null where nobody has said it. Every
-- row-level policy asks it, so that without a principal there are no rows. It is bound to its transaction by the moment at
-- which that began: what somebody left behind on a pooled connection (a SET of a whole session, another transaction's
-- setting) matches no later transaction. Objects: {"agent", "user", "session"} for a user, {"serves": agent} for the
-- library's own work for one agent, {"serves_all": true} for all. The moment stands before the object, and what follows
-- another moment isn't parsed: rubbish in the setting is nobody, not an error.
CREATE OR REPLACE FUNCTION memory.principal() RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT CASE
        WHEN split_part(current_setting('memory.principal', true), ' ', 1) = extract(epoch FROM transaction_timestamp())::text
        THEN substr(
            current_setting('memory.principal', true), strpos(current_setting('memory.principal', true), ' ') + 1
        )::jsonb
    END
$$;

COMMENT ON FUNCTION memory.principal() IS
    'On whose behalf this transaction works: a user of an agent, or the library itself; null: nobody said so.';

-- memory.enter(agent, user, session, service): names the principal until the transaction ends or memory.leave(…) is called;
-- returns the setting as it was, for that. Without service a user, who may read what they may see; with service the
-- library's own work, which may read and write: for that agent, or for all where the agent is null.
CREATE OR REPLACE FUNCTION memory.enter(p_agent text, p_user text, p_session text, p_service boolean) RETURNS text
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_before text := current_setting('memory.principal', true);
BEGIN
    PERFORM set_config(
        'memory.principal',
        extract(epoch FROM transaction_timestamp())::text || ' ' || CASE
            WHEN NOT p_service THEN jsonb_build_object('agent', p_agent, 'user', p_user, 'session', p_session)
            WHEN p_agent IS NULL THEN jsonb_build_object('serves_all', true)
            ELSE jsonb_build_object('serves', p_agent)
        END::text,
        true
    );
    RETURN v_before;
END
$$;

COMMENT ON FUNCTION memory.enter(text, text, text, boolean) IS
    'Names the principal of this transaction; returns the setting before, for memory.leave.';

-- memory.leave(before): puts back what memory.enter(…) returned.
CREATE OR REPLACE FUNCTION memory.leave(p_before text) RETURNS void
LANGUAGE sql VOLATILE
AS $$
    SELECT set_config('memory.principal', coalesce(p_before, ''), true)
$$;

COMMENT ON FUNCTION memory.leave(text) IS 'Puts the principal back that was named before.';
"""

MY_SCOPES = """
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

ERASE_AGENT = """
-- memory.erase_agent(agent_key): takes out everything of an agent but its id and the events, and counts it. One row per
-- table. The caller has locked the agent's row. Runs as its owner, as memory.erase does.
CREATE OR REPLACE FUNCTION memory.erase_agent(p_agent bigint) RETURNS TABLE (what text, counted bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
AS $$
BEGIN
    PERFORM FROM memory.agents a WHERE a.agent_key = p_agent FOR KEY SHARE;  -- which a user may not
    IF NOT FOUND THEN  -- behind walls, where nobody has named the principal: better an error than nothing erased
        RAISE EXCEPTION 'this transaction does not work for agent %', p_agent USING ERRCODE = 'insufficient_privilege';
    END IF;

    FOREACH what IN ARRAY ARRAY[
        'lineage', 'evidence', 'observation_states', 'observations', 'consolidations', 'members', 'user_aliases',
        'runs', 'messages', 'sessions', 'scopes', 'holds'
    ] LOOP
        EXECUTE format('DELETE FROM memory.%I WHERE agent_key = $1', what) USING p_agent;
        GET DIAGNOSTICS counted = ROW_COUNT;
        RETURN NEXT;
    END LOOP;
    UPDATE memory.agents SET settings = '{}' WHERE agent_key = p_agent;
    UPDATE memory.events SET reason = NULL WHERE agent_key = p_agent;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.erase_agent(bigint) FROM PUBLIC;

COMMENT ON FUNCTION memory.erase_agent(bigint) IS 'Takes out everything of an agent, and counts it; one row per table.';
"""

OBSERVATION_VERSION = """
-- memory.observation_version(agent_key, scope_id, seq): how often something was said about an observation since it was
-- made, and one; for optimistic locks. One number. It runs as its owner, since events are nobody's to read.
CREATE OR REPLACE FUNCTION memory.observation_version(p_agent bigint, p_scope bigint, p_seq integer) RETURNS integer
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
AS $$
    SELECT count(*)::integer + 1
    FROM memory.events e
    WHERE e.agent_key = p_agent AND e.scope_id = p_scope AND e.seq = p_seq
$$;

REVOKE EXECUTE ON FUNCTION memory.observation_version(bigint, bigint, integer) FROM PUBLIC;

COMMENT ON FUNCTION memory.observation_version(bigint, bigint, integer) IS
    'Rises with each change of what is said about an observation.';
"""

STATIC_LAYER = """
-- memory.static_layer(agent, user, session, pending_max): what a context shows of every scope that the principal may see.
-- One row per active scope, unordered: its text, and at most pending_max of its newest pending observations, in three arrays
-- of equal length, newest first, and of its disputed ones likewise; null where there are none. Row-level policies don't stand between it and the tables: it
-- runs as its owner and asks memory.visible_scopes itself, so that it is one round trip, without naming a principal first.
CREATE OR REPLACE FUNCTION memory.static_layer(p_agent text, p_user text, p_session text, p_pending_max bigint)
RETURNS TABLE (
    scope_id bigint, kind text, owner text, name text, display_name text, consolidation text, version integer,
    pending_seqs integer[], pending_contents text[], pending_times timestamptz[],
    disputed_seqs integer[], disputed_contents text[], disputed_times timestamptz[]
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT s.scope_id, s.kind, s.owner, s.name, s.display_name, s.consolidation, s.version, p.seqs, p.contents, p.times,
           d.seqs, d.contents, d.times
    FROM memory.visible_scopes(p_agent, p_user, p_session) v
    JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id
    CROSS JOIN LATERAL (
        SELECT array_agg(n.seq) AS seqs, array_agg(n.content) AS contents, array_agg(n.observed_at) AS times
        FROM (
            SELECT o.seq, o.content, o.observed_at
            FROM memory.pending_observations(s.agent_key, s.scope_id, s.done_seq) o
            ORDER BY o.seq DESC
            LIMIT p_pending_max
        ) n
    ) p
    CROSS JOIN LATERAL (
        SELECT array_agg(n.seq) AS seqs, array_agg(n.content) AS contents, array_agg(n.observed_at) AS times
        FROM (
            SELECT o.seq, o.content, o.observed_at
            FROM memory.observation_states t
            JOIN memory.observations o ON o.agent_key = t.agent_key AND o.scope_id = t.scope_id AND o.seq = t.seq
            WHERE t.agent_key = s.agent_key AND t.scope_id = s.scope_id AND t.verification = 'disputed'
              AND t.status = 'active'
            ORDER BY o.seq DESC
            LIMIT p_pending_max
        ) n
    ) d
    WHERE s.is_active;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.static_layer(text, text, text, bigint) FROM PUBLIC;

COMMENT ON FUNCTION memory.static_layer(text, text, text, bigint) IS
    'The texts and newest pending observations of the scopes that a user of an agent may see; one row per scope.';
"""

SEARCH = """
-- memory.search(agent, user, session, query, limit): the observations that match, among those that the principal may see,
-- best first. One row per observation. `p_query` is for websearch_to_tsquery. Every text is searched in its own language
-- and once without one, as its search vector was made; the query is parsed once for each language, not for each row.
-- Row-level policies don't stand between it and the tables: under one `@@`, which isn't leakproof, may not be asked before
-- the policy, and no text index is used. It runs as its owner and asks memory.visible_scopes itself.
CREATE OR REPLACE FUNCTION memory.search(p_agent text, p_user text, p_session text, p_query text, p_limit bigint)
RETURNS TABLE (
    scope_id bigint, seq integer, scope_kind text, owner text, name text, content text, observed_at timestamptz,
    created_at timestamptz, source_kind text, session_id text, speaker text, message_ids text[], run_id bigint,
    category text, kind text, confidence real, importance real, sensitivity text, no_propagate boolean,
    confidential boolean, verification text, superseded_by integer, fact_key text, version integer, tags text[],
    own_metadata jsonb, status text, pending boolean, score real
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH wanted AS MATERIALIZED (
        SELECT l.language,
               websearch_to_tsquery(l.language::regconfig, p_query) || websearch_to_tsquery('simple'::regconfig, p_query)
                   AS query
        FROM (
            SELECT DISTINCT s.language
            FROM memory.visible_scopes(p_agent, p_user, p_session) v
            JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id
        ) l
    )
    SELECT o.scope_id, o.seq, s.kind, s.owner, s.name, o.content, o.observed_at, o.created_at, o.source_kind, o.session_id,
           o.speaker, o.message_ids, o.run_id, o.category, o.kind, o.confidence, o.importance, o.sensitivity,
           o.no_propagate, o.confidential, coalesce(t.verification, 'unverified'), t.superseded_by, o.fact_key,
           memory.observation_version(o.agent_key, o.scope_id, o.seq), o.tags, o.metadata, coalesce(t.status, 'active'),
           o.lane = 'absorb' AND coalesce(t.status, 'active') = 'active'
               AND (o.seq > s.done_seq OR coalesce(t.repend, false)),
           ts_rank(o.search, w.query)
    FROM memory.visible_scopes(p_agent, p_user, p_session) v
    JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id
    JOIN memory.observations o ON o.agent_key = s.agent_key AND o.scope_id = s.scope_id
    JOIN wanted w ON w.language = o.language
    LEFT JOIN memory.observation_states t ON t.agent_key = o.agent_key AND t.scope_id = o.scope_id AND t.seq = o.seq
    WHERE o.search @@ w.query
      AND coalesce(t.status, 'active') NOT IN ('quarantined', 'superseded')
      AND s.is_active
    ORDER BY ts_rank(o.search, w.query) DESC, o.observed_at DESC, o.scope_id, o.seq
    LIMIT p_limit;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.search(text, text, text, text, bigint) FROM PUBLIC;

COMMENT ON FUNCTION memory.search(text, text, text, text, bigint) IS
    'The observations that a user of an agent may see and that match, best first; one row per observation.';
"""

V_OBSERVATIONS = """
-- memory.v_observations: every observation with its scope and state. One row per observation.
-- absorbed_by: the live version of the scope's text that holds it; null while it is pending or set aside.
CREATE OR REPLACE VIEW memory.v_observations WITH (security_invoker = true) AS
SELECT
    a.agent_id,
    'o' || o.scope_id || '-' || o.seq AS observation_id,
    o.scope_id,
    o.seq,
    s.kind AS scope_kind,
    CASE WHEN s.owner LIKE '_:%' THEN substr(s.owner, 3) END AS owner_id,
    nullif(s.name, '') AS scope_name,
    s.is_active AS scope_is_active,
    o.content,
    o.observed_at,
    o.created_at,
    o.source_kind,
    o.session_id,
    o.speaker,
    o.message_ids,
    o.related_users,
    o.run_id,
    o.lane,
    o.category,
    o.kind,
    o.confidence,
    o.importance,
    o.sensitivity,
    o.no_propagate,
    o.confidential,
    o.tags,
    o.metadata,
    coalesce(t.status, 'active') AS status,
    coalesce(t.status_at, o.created_at) AS status_at,
    o.lane = 'absorb' AND coalesce(t.status, 'active') = 'active'
        AND (o.seq > s.done_seq OR coalesce(t.repend, false)) AS pending,
    v.version AS absorbed_by,
    v.created_at AS absorbed_at
FROM memory.observations o
JOIN memory.scopes s ON s.agent_key = o.agent_key AND s.scope_id = o.scope_id
JOIN memory.agents a ON a.agent_key = o.agent_key
LEFT JOIN memory.observation_states t ON t.agent_key = o.agent_key AND t.scope_id = o.scope_id AND t.seq = o.seq
LEFT JOIN LATERAL (
    SELECT c.version, c.created_at
    FROM memory.consolidations c
    WHERE c.agent_key = o.agent_key AND c.scope_id = o.scope_id AND c.live AND o.lane = 'absorb'
      AND (
          o.seq = ANY (c.extra_seqs)
          OR (o.seq > c.from_seq AND o.seq <= c.to_seq AND NOT coalesce(t.repend, false))
      )
    ORDER BY o.seq = ANY (c.extra_seqs) DESC
    LIMIT 1
) v ON true;

COMMENT ON VIEW memory.v_observations IS 'One row per observation, with its scope, its state and the version that absorbed it.';
"""

V_SCOPE_TIMELINE = """
-- memory.v_scope_timeline: how each scope's text came to be. One row per version of a scope's text.
-- absorbed: observations that went into it; words_before: length of the text that it was written on top of.
CREATE OR REPLACE VIEW memory.v_scope_timeline WITH (security_invoker = true) AS
SELECT
    a.agent_id,
    c.scope_id,
    s.kind AS scope_kind,
    CASE WHEN s.owner LIKE '_:%' THEN substr(s.owner, 3) END AS owner_id,
    nullif(s.name, '') AS scope_name,
    c.version,
    c.base,
    c.live,
    c.version = s.version AS is_head,
    c.reason,
    c.created_at,
    c.words,
    coalesce(b.words, 0) AS words_before,
    r.observations AS absorbed,
    c.from_seq,
    c.to_seq,
    c.extra_seqs,
    c.model,
    c.prompt_version,
    c.run_id,
    c.content
FROM memory.consolidations c
JOIN memory.scopes s ON s.agent_key = c.agent_key AND s.scope_id = c.scope_id
JOIN memory.agents a ON a.agent_key = c.agent_key
LEFT JOIN memory.consolidations b ON b.agent_key = c.agent_key AND b.scope_id = c.scope_id AND b.version = c.base
LEFT JOIN memory.runs r ON r.agent_key = c.agent_key AND r.run_id = c.run_id;

COMMENT ON VIEW memory.v_scope_timeline IS 'One row per version of a scope''s consolidated text, with what it absorbed and cost.';
"""

V_CONTRADICTIONS = """
-- memory.v_contradictions: what a newer observation says otherwise, as the model that consolidated them named it. One row per
-- contradiction that a version of a scope's text named.
-- older_id: the observation that no longer holds; null where the text before said it. live: false where the version was
-- undone, and the older observation counts again. older_status: what it is now; null where there is none.
CREATE OR REPLACE VIEW memory.v_contradictions WITH (security_invoker = true) AS
SELECT
    a.agent_id,
    c.scope_id,
    s.kind AS scope_kind,
    CASE WHEN s.owner LIKE '_:%' THEN substr(s.owner, 3) END AS owner_id,
    nullif(s.name, '') AS scope_name,
    c.version,
    c.live,
    c.created_at,
    'o' || c.scope_id || '-' || i.newer AS newer_id,
    'o' || c.scope_id || '-' || i.older AS older_id,
    i.was,
    i.now,
    CASE WHEN o.seq IS NOT NULL THEN coalesce(t.status, 'active') END AS older_status,
    c.model,
    c.run_id
FROM memory.consolidations c
JOIN memory.scopes s ON s.agent_key = c.agent_key AND s.scope_id = c.scope_id
JOIN memory.agents a ON a.agent_key = c.agent_key
CROSS JOIN LATERAL jsonb_to_recordset(c.contradictions) AS i (newer integer, older integer, was text, now text)
LEFT JOIN memory.observations o ON o.agent_key = c.agent_key AND o.scope_id = c.scope_id AND o.seq = i.older
LEFT JOIN memory.observation_states t ON t.agent_key = c.agent_key AND t.scope_id = c.scope_id AND t.seq = i.older;

COMMENT ON VIEW memory.v_contradictions IS
    'One row per contradiction that a version of a scope''s text named: what counts, what gave way, in whose words.';
"""

V_PENDING = """
-- memory.v_pending: the backlog. One row per scope that has pending observations.
-- oldest_at: when the longest-waiting one was stored; due_at: from when a consolidation is due, null below the threshold.
CREATE OR REPLACE VIEW memory.v_pending WITH (security_invoker = true) AS
SELECT
    a.agent_id,
    s.scope_id,
    s.kind AS scope_kind,
    CASE WHEN s.owner LIKE '_:%' THEN substr(s.owner, 3) END AS owner_id,
    nullif(s.name, '') AS scope_name,
    p.pending,
    p.oldest_at,
    now() - p.oldest_at AS oldest_age,
    s.due_at,
    coalesce(s.lease_until > clock_timestamp(), false) AS in_progress,
    s.version,
    s.consolidated_at
FROM memory.scopes s
JOIN memory.agents a ON a.agent_key = s.agent_key
CROSS JOIN LATERAL (
    -- The rows of memory.pending_observations, without their text: whoever looks at the backlog may not be allowed to see it.
    SELECT count(*) AS pending, min(w.created_at) AS oldest_at
    FROM (
        SELECT o.created_at
        FROM memory.observations o
        WHERE o.agent_key = s.agent_key AND o.scope_id = s.scope_id AND o.seq > s.done_seq AND o.lane = 'absorb'
          AND NOT EXISTS (
              SELECT FROM memory.observation_states t
              WHERE t.agent_key = o.agent_key AND t.scope_id = o.scope_id AND t.seq = o.seq AND t.status <> 'active'
          )
        UNION ALL
        SELECT o.created_at
        FROM memory.observation_states t
        JOIN memory.observations o ON o.agent_key = t.agent_key AND o.scope_id = t.scope_id AND o.seq = t.seq
        WHERE t.agent_key = s.agent_key AND t.scope_id = s.scope_id AND t.seq <= s.done_seq AND t.repend
          AND t.status = 'active' AND o.lane = 'absorb'
    ) w
) p
WHERE p.pending > 0;

COMMENT ON VIEW memory.v_pending IS 'One row per scope with observations that wait for a consolidation.';
"""

V_FORMATION_FUNNEL = """
-- memory.v_formation_funnel: what becomes of what is said. One row per agent and day (UTC) on which a message was stored or
-- a formation began. A message counts on the day on which it was stored, a run with all that came of it on the day on which
-- it began: each is in exactly one row, so every column may be added up over days and agents.
-- eligible = formed + discarded (put aside after it was given up) + waiting; the other messages are skipped.
-- runs = succeeded + empty (nothing worth keeping) + failed + dead (waits for a person) + runs_discarded + under_way.
-- duplicates: observations that were known already; refused: what the model may not do, mended or left out.
CREATE OR REPLACE VIEW memory.v_formation_funnel WITH (security_invoker = true) AS
SELECT
    a.agent_id,
    e.day,
    e.messages,
    e.eligible,
    e.formed,
    e.discarded,
    e.waiting,
    e.runs,
    e.succeeded,
    e.empty,
    e.failed,
    e.dead,
    e.runs_discarded,
    e.under_way,
    e.observations,
    e.duplicates,
    e.refused
FROM memory.agents a
CROSS JOIN LATERAL (
    SELECT
        day,
        coalesce(m.messages, 0) AS messages,
        coalesce(m.eligible, 0) AS eligible,
        coalesce(m.formed, 0) AS formed,
        coalesce(m.discarded, 0) AS discarded,
        coalesce(m.waiting, 0) AS waiting,
        coalesce(r.runs, 0) AS runs,
        coalesce(r.succeeded, 0) AS succeeded,
        coalesce(r.empty, 0) AS empty,
        coalesce(r.failed, 0) AS failed,
        coalesce(r.dead, 0) AS dead,
        coalesce(r.discarded, 0) AS runs_discarded,
        coalesce(r.under_way, 0) AS under_way,
        coalesce(r.observations, 0) AS observations,
        coalesce(r.duplicates, 0) AS duplicates,
        coalesce(r.refused, 0) AS refused
    FROM (
        SELECT
            (t.created_at AT TIME ZONE 'UTC')::date AS day,
            count(*) AS messages,
            count(*) FILTER (WHERE t.eligible) AS eligible,
            count(*) FILTER (WHERE t.eligible AND t.number <= s.formed_number AND d.run_id IS NULL) AS formed,
            count(*) FILTER (WHERE t.eligible AND d.run_id IS NOT NULL) AS discarded,
            count(*) FILTER (WHERE t.eligible AND t.number > s.formed_number) AS waiting
        FROM memory.messages t
        JOIN memory.sessions s ON s.agent_key = t.agent_key AND s.session_id = t.session_id
        LEFT JOIN memory.runs d
            ON d.agent_key = t.agent_key AND d.session_id = t.session_id AND d.state = 'discarded'
            AND t.number > d.from_number AND t.number <= d.to_number
        WHERE t.agent_key = a.agent_key
        GROUP BY 1
    ) m
    FULL JOIN (
        SELECT
            (f.started_at AT TIME ZONE 'UTC')::date AS day,
            count(*) AS runs,
            count(*) FILTER (WHERE f.state = 'succeeded') AS succeeded,
            count(*) FILTER (WHERE f.state = 'empty') AS empty,
            count(*) FILTER (WHERE f.state = 'failed') AS failed,
            count(*) FILTER (WHERE f.state = 'dead') AS dead,
            count(*) FILTER (WHERE f.state = 'discarded') AS discarded,
            count(*) FILTER (WHERE f.state IN ('running', 'answered')) AS under_way,
            sum(f.observations) AS observations,
            sum(f.duplicates) AS duplicates,
            sum((SELECT sum(n.value::integer) FROM jsonb_each_text(f.refused) n))::bigint AS refused
        FROM memory.runs f
        WHERE f.agent_key = a.agent_key AND f.kind = 'formation'
        GROUP BY 1
    ) r USING (day)
) e;

COMMENT ON VIEW memory.v_formation_funnel IS
    'One row per agent and day (UTC): messages by what became of them, formations by outcome, and what they yielded.';
"""

V_MODEL_COST = """
-- memory.v_model_cost: what the work of the models cost. One row per agent, day (UTC) on which the work began, kind of run
-- and model; the model is null where none answered, and 'none' where nothing had to be asked. Every run is in exactly one
-- row. failures: runs whose answer was not used; tokens: as the provider counts them, also of answers that were not used;
-- latency_seconds, latency_seconds_max: mean and longest time that a model took; null where none answered.
CREATE OR REPLACE VIEW memory.v_model_cost WITH (security_invoker = true) AS
SELECT
    a.agent_id,
    (r.started_at AT TIME ZONE 'UTC')::date AS day,
    r.kind,
    r.model,
    count(*) AS runs,
    count(*) FILTER (WHERE r.error_code IS NOT NULL) AS failures,
    coalesce(sum(r.input_tokens), 0) AS input_tokens,
    coalesce(sum(r.output_tokens), 0) AS output_tokens,
    avg(r.latency_seconds) AS latency_seconds,
    max(r.latency_seconds) AS latency_seconds_max
FROM memory.runs r
JOIN memory.agents a ON a.agent_key = r.agent_key
GROUP BY 1, 2, 3, 4;

COMMENT ON VIEW memory.v_model_cost IS
    'One row per agent, day (UTC), kind of run and model: runs, failures, tokens in and out, mean and longest latency.';
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
    EXISTS (  -- of the sessions that the user may see: their policy is asked here as well
        SELECT FROM memory.sessions s WHERE s.agent_key = messages.agent_key AND s.session_id = messages.session_id
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
BEGIN
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
END
$$;

COMMENT ON FUNCTION memory.add_messages(
    text, text, text, text[], jsonb, jsonb, timestamptz, boolean, text, text
) IS 'Stores the messages that are new, once, and says whether the session is due; one row.';
"""

ERASE_BEFORE = """
-- memory.erase(agent_key, scope_ids, seqs, session_ids, numbers, evidence_ids, scopes, users, at): takes out of the
-- tables what `memory.forget_closure` told, and says how many rows of each kind. The only place that deletes. Belongs at
-- the end of a forgetting: the caller holds the locks on the sessions and scopes concerned and has rewound their texts.
-- Observations, their states, evidence and lineage, and the tainted versions go. Of messages the key stays, without a
-- word. What others stand behind as well stays and doesn't name `users` any more. Answers go that a model gave while it
-- was shown any of this. `scopes` lose also their name and guidance, `users` their memberships.
CREATE OR REPLACE FUNCTION memory.erase(
    p_agent bigint, p_scope_ids bigint[], p_seqs integer[], p_session_ids text[], p_numbers bigint[],
    p_evidence_ids bigint[], p_scopes bigint[], p_users text[], p_at timestamptz
) RETURNS TABLE (what text, counted bigint)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_touched bigint[] := ARRAY(SELECT DISTINCT x FROM unnest(p_scope_ids || p_scopes) x ORDER BY x);
    v_sessions text[] := ARRAY(SELECT DISTINCT x FROM unnest(p_session_ids) x ORDER BY x);
BEGIN
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

COMMENT ON FUNCTION memory.erase(
    bigint, bigint[], integer[], text[], bigint[], bigint[], bigint[], text[], timestamptz
) IS 'Takes out what is forgotten, and counts it; one row per kind.';
"""

ERASE_AGENT_BEFORE = """
-- memory.erase_agent(agent_key): takes out everything of an agent but its id and the events, and counts it. One row per
-- table. The caller has locked the agent's row.
CREATE OR REPLACE FUNCTION memory.erase_agent(p_agent bigint) RETURNS TABLE (what text, counted bigint)
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    FOREACH what IN ARRAY ARRAY[
        'lineage', 'evidence', 'observation_states', 'observations', 'consolidations', 'members', 'user_aliases',
        'runs', 'messages', 'sessions', 'scopes', 'holds'
    ] LOOP
        EXECUTE format('DELETE FROM memory.%I WHERE agent_key = $1', what) USING p_agent;
        GET DIAGNOSTICS counted = ROW_COUNT;
        RETURN NEXT;
    END LOOP;
    UPDATE memory.agents SET settings = '{}' WHERE agent_key = p_agent;
    UPDATE memory.events SET reason = NULL WHERE agent_key = p_agent;
END
$$;

COMMENT ON FUNCTION memory.erase_agent(bigint) IS 'Takes out everything of an agent, and counts it; one row per table.';
"""

V_PENDING_BEFORE = """
-- memory.v_pending: the backlog. One row per scope that has pending observations.
-- oldest_at: when the longest-waiting one was stored; due_at: from when a consolidation is due, null below the threshold.
CREATE OR REPLACE VIEW memory.v_pending AS
SELECT
    a.agent_id,
    s.scope_id,
    s.kind AS scope_kind,
    CASE WHEN s.owner LIKE '_:%' THEN substr(s.owner, 3) END AS owner_id,
    nullif(s.name, '') AS scope_name,
    p.pending,
    p.oldest_at,
    now() - p.oldest_at AS oldest_age,
    s.due_at,
    coalesce(s.lease_until > clock_timestamp(), false) AS in_progress,
    s.version,
    s.consolidated_at
FROM memory.scopes s
JOIN memory.agents a ON a.agent_key = s.agent_key
CROSS JOIN LATERAL (
    SELECT count(*) AS pending, min(o.created_at) AS oldest_at
    FROM memory.pending_observations(s.agent_key, s.scope_id, s.done_seq) o
) p
WHERE p.pending > 0;

COMMENT ON VIEW memory.v_pending IS 'One row per scope with observations that wait for a consolidation.';
"""

TABLES = """
agents
scopes
members
observations
observation_states
consolidations
evidence
lineage
sessions
messages
runs
events
holds
user_aliases
""".split()

FOR_SERVICE_ONLY = {"runs", "events", "holds"}


def upgrade() -> None:
    for script in (PRINCIPAL, MY_SCOPES, ADD_MESSAGES, ERASE, ERASE_AGENT, OBSERVATION_VERSION, STATIC_LAYER, SEARCH):
        run(script)
    for view in (V_OBSERVATIONS, V_SCOPE_TIMELINE, V_CONTRADICTIONS, V_PENDING, V_FORMATION_FUNNEL, V_MODEL_COST):
        run(view)
    run(POLICIES)


def downgrade() -> None:
    for table in TABLES:
        if table not in FOR_SERVICE_ONLY:
            op.execute(f"DROP POLICY users ON memory.{table}")
        op.execute(f"DROP POLICY service ON memory.{table}")
        op.execute(f"ALTER TABLE memory.{table} DISABLE ROW LEVEL SECURITY")
    for view in ("v_observations", "v_scope_timeline", "v_contradictions", "v_formation_funnel", "v_model_cost"):
        op.execute(f"ALTER VIEW memory.{view} RESET (security_invoker)")
    run(V_PENDING_BEFORE)
    for script in (ADD_MESSAGES_BEFORE, ERASE_BEFORE, ERASE_AGENT_BEFORE):
        run(script)
    for name in (
        "erase(bigint, bigint[], integer[], text[], bigint[], bigint[], bigint[], text[], timestamptz)",
        "erase_agent(bigint)",
    ):
        op.execute(f"GRANT EXECUTE ON FUNCTION memory.{name} TO PUBLIC")
    op.execute("DROP FUNCTION memory.observation_version(bigint, bigint, integer)")
    op.execute("DROP FUNCTION memory.search(text, text, text, text, bigint)")
    op.execute("DROP FUNCTION memory.static_layer(text, text, text, bigint)")
    for name in ("my_scopes()", "my_user_ids()", "my_agent()", "served_agent()", "serves_all()", "leave(text)"):
        op.execute(f"DROP FUNCTION memory.{name}")
    op.execute("DROP FUNCTION memory.enter(text, text, text, boolean)")
    op.execute("DROP FUNCTION memory.principal()")


def run(script: str) -> None:
    """asyncpg prepares one statement at a time; each begins at the start of a line, bodies are indented."""
    for statement in re.split(r";\s*\n(?=(?:CREATE|COMMENT|REVOKE|ALTER|--) ?)", script.strip().removesuffix(";")):
        op.execute(statement)
