"""Let add decide by age, by an agent's own settings and by what a key stood for

Frozen: imports nothing of memory_sql.

Revision ID: 5d08e3b6a91f
Revises: 6d0f4b8a1e53
Create Date: 2026-11-22 03:10:00+00:00
"""

from __future__ import annotations

import re

from alembic import op

revision = "5d08e3b6a91f"
down_revision = "6d0f4b8a1e53"
branch_labels = None
depends_on = None

ADD_MESSAGES_KEY = "text, text, text, text[], jsonb, jsonb, timestamptz, boolean, text, text"
ADD_MESSAGES_KEY_BEFORE = "text, text, text, text[], jsonb, integer, integer, integer, interval, timestamptz, boolean"
FORMATION_DUE_KEY = "integer, real, boolean, timestamptz, jsonb, timestamptz"
DUE_REASON_KEY = "integer, real, boolean, integer, integer, integer"

FORMATION_DUE = """
-- memory.formation_due(messages, tokens, signalled, since, limits, at): from when a session with that much unformed is due,
-- and why; both null: not at all. One row. The counts are of messages that formation reads, `since` is when the oldest of
-- them arrived, `at` when the newest did. `limits` are settings by name. Cold: after a silence. Age: a session that never
-- falls silent, when its oldest message is that old; whichever comes first.
CREATE OR REPLACE FUNCTION memory.formation_due(
    p_messages integer, p_tokens real, p_signalled boolean, p_since timestamptz, p_limits jsonb, p_at timestamptz,
    OUT due_at timestamptz, OUT due_reason text
)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT
        CASE WHEN r.reason = 'cold' THEN least(r.cold_at, r.old_at) WHEN r.reason IS NOT NULL THEN p_at END,
        CASE WHEN r.reason = 'cold' AND r.old_at < r.cold_at THEN 'age' ELSE r.reason END
    FROM (
        SELECT
            p_at + (p_limits->>'formation_cold_minutes')::float8 * interval '1 minute' AS cold_at,
            p_since + (p_limits->>'formation_max_age_minutes')::float8 * interval '1 minute' AS old_at,
            CASE
                WHEN p_signalled AND p_messages > 0 THEN 'signal'
                WHEN p_messages >= (p_limits->>'formation_messages')::integer THEN 'messages'
                WHEN p_messages < (p_limits->>'formation_min_messages')::integer THEN NULL
                WHEN p_tokens >= (p_limits->>'formation_tokens')::integer THEN 'tokens'
                ELSE 'cold'
            END AS reason
    ) r
$$;

COMMENT ON FUNCTION memory.formation_due(integer, real, boolean, timestamptz, jsonb, timestamptz) IS
    'From when a session is due, and why: signal, messages, tokens, age or cold; null: it is not.';
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

REFRESH_DUE = """
-- memory.refresh_due(agent_key, scope_ids, threshold, at): says anew which of these scopes are due, and wakes the workers
-- when one has become so. Belongs at the end of every transaction that adds observations or changes their status, lane or
-- the watermark; the caller holds the scopes' row locks. A scope that was due already keeps its time. One whose text was
-- just undone waits for something new. One that has lost its text, because something in it was forgotten, is due whatever
-- the threshold, until nothing waits (`rebuild`). The threshold is the scope's own, else the agent's, else the one that is
-- given.
CREATE OR REPLACE FUNCTION memory.refresh_due(p_agent bigint, p_scopes bigint[], p_threshold integer, p_at timestamptz)
RETURNS void
LANGUAGE sql VOLATILE
AS $$
    WITH changed AS (
        UPDATE memory.scopes s
        SET due_at = CASE WHEN is_due.yes THEN coalesce(s.due_at, p_at) END, rebuild = s.rebuild AND is_due.waits
        FROM (
            SELECT c.scope_id, c.is_active AND c.consolidate AND c.dead_run_id IS NULL AND (c.rebuild OR c.last_seq > c.held_seq)
                AND wanted.pending <= found.pending AS yes,
                   found.pending > 0 AS waits
            FROM memory.scopes c
            JOIN memory.agents a ON a.agent_key = c.agent_key
            CROSS JOIN LATERAL (
                SELECT CASE WHEN c.rebuild THEN 1 ELSE coalesce(
                    c.consolidation_threshold, (a.settings->>'consolidation_threshold')::integer, p_threshold
                ) END AS pending
            ) wanted
            CROSS JOIN LATERAL (
                SELECT count(*) AS pending
                FROM (
                    SELECT FROM memory.pending_observations(c.agent_key, c.scope_id, c.done_seq) LIMIT wanted.pending
                ) enough
            ) found
            WHERE c.agent_key = p_agent AND c.scope_id = ANY (p_scopes)
        ) is_due
        WHERE s.agent_key = p_agent AND s.scope_id = is_due.scope_id
          AND ((s.due_at IS NOT NULL) IS DISTINCT FROM is_due.yes OR s.rebuild AND NOT is_due.waits)
        RETURNING s.due_at
    )
    SELECT pg_notify('memory_due', '') FROM changed WHERE due_at IS NOT NULL LIMIT 1
$$;

COMMENT ON FUNCTION memory.refresh_due(bigint, bigint[], integer, timestamptz) IS
    'Sets or clears scopes.due_at from what is pending.';
"""

DUE_REASON_BEFORE = """
-- memory.due_reason(messages, tokens, signalled, due_messages, due_tokens, min_messages): why a session with that much
-- unformed is due; cold: only after a silence; null: not at all. The counts are of messages that formation reads.
CREATE OR REPLACE FUNCTION memory.due_reason(
    p_messages integer, p_tokens real, p_signalled boolean,
    p_due_messages integer, p_due_tokens integer, p_min_messages integer
) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
        WHEN p_signalled AND p_messages > 0 THEN 'signal'
        WHEN p_messages >= p_due_messages THEN 'messages'
        WHEN p_messages >= p_min_messages AND p_tokens >= p_due_tokens THEN 'tokens'
        WHEN p_messages >= p_min_messages THEN 'cold'
    END
$$;

COMMENT ON FUNCTION memory.due_reason(integer, real, boolean, integer, integer, integer) IS
    'Why a session is due: signal, messages, tokens or cold; null: it is not.';
"""

ADD_MESSAGES_BEFORE = """
-- memory.add_messages(…): stores the messages that aren't there yet, counts them and says whether the session is due.
-- One row. In one statement for the caller, in its transaction. A message is known by its id within the session, also
-- after its text has gone. Everything is counted under the session's row lock, so that two calls at once can't both miss
-- a threshold. `p_messages` is an array of objects: id, role, user_id, speaker, content, cleaned, weight, eligible,
-- signal, said_at. Group scopes are made where missing; the user and the writers become members unless they ever were:
-- somebody who left doesn't come back by a late message. What is said while the session is excluded is never formed.
-- Wakes the workers when the session is due.
CREATE OR REPLACE FUNCTION memory.add_messages(
    p_agent text, p_session text, p_user text, p_groups text[], p_messages jsonb,
    p_due_messages integer, p_due_tokens integer, p_min_messages integer, p_cold interval, p_at timestamptz,
    p_excluded boolean,
    OUT accepted integer, OUT last_number bigint, OUT unformed_messages integer, OUT unformed_tokens real,
    OUT due_at timestamptz, OUT due_reason text
)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_agent bigint;
    v_at timestamptz := coalesce(p_at, now());
    v_users text[];
    v_tokens real;
    v_count integer;
    v_signal boolean;
    v_excluded boolean;
    v_session memory.sessions;
BEGIN
    SELECT a.agent_key INTO v_agent FROM memory.agents a WHERE a.agent_id = p_agent;
    IF v_agent IS NULL THEN
        INSERT INTO memory.agents (agent_id, created_at) VALUES (p_agent, v_at) ON CONFLICT DO NOTHING;
        SELECT a.agent_key INTO STRICT v_agent FROM memory.agents a WHERE a.agent_id = p_agent;
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

    v_excluded := coalesce(p_excluded, v_session.excluded);
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
    due_reason := CASE
        WHEN v_session.due_reason = 'retry' THEN 'retry'
        ELSE memory.due_reason(
            unformed_messages, unformed_tokens, v_signal OR v_session.due_reason = 'signal',
            p_due_messages, p_due_tokens, p_min_messages
        )
    END;
    due_at := CASE
        WHEN due_reason = 'cold' THEN v_at + p_cold
        WHEN due_reason = v_session.due_reason THEN v_session.due_at
        WHEN due_reason IS NOT NULL THEN v_at
    END;
    IF accepted = 0 THEN
        due_at := v_session.due_at;
        due_reason := v_session.due_reason;
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
        due_at = add_messages.due_at,
        due_reason = add_messages.due_reason,
        excluded = v_excluded,
        participants = v_users,
        group_ids = ARRAY(SELECT DISTINCT g FROM unnest(s.group_ids || p_groups) g ORDER BY g),
        last_activity_at = CASE WHEN accepted > 0 THEN v_at ELSE s.last_activity_at END
    WHERE s.agent_key = v_agent AND s.session_id = p_session;

    IF cardinality(p_groups) > 0 THEN
        INSERT INTO memory.scopes (agent_key, kind, owner, display_name, created_at)
        SELECT v_agent, 'group', 'g:' || g, g, v_at FROM (SELECT DISTINCT unnest(p_groups) AS g ORDER BY 1) groups
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
    text, text, text, text[], jsonb, integer, integer, integer, interval, timestamptz, boolean
) IS 'Stores the messages that are new, once, and says whether the session is due; one row.';
"""

REFRESH_DUE_BEFORE = """
-- memory.refresh_due(agent_key, scope_ids, threshold, at): says anew which of these scopes are due, and wakes the workers
-- when one has become so. Belongs at the end of every transaction that adds observations or changes their status, lane or
-- the watermark; the caller holds the scopes' row locks. A scope that was due already keeps its time. One that was given
-- up waits for a person; one whose text was just undone waits for something new. One that has lost its text, because
-- something in it was forgotten, is due whatever the threshold.
CREATE OR REPLACE FUNCTION memory.refresh_due(p_agent bigint, p_scopes bigint[], p_threshold integer, p_at timestamptz)
RETURNS void
LANGUAGE sql VOLATILE
AS $$
    WITH changed AS (
        UPDATE memory.scopes s
        SET due_at = CASE WHEN is_due.yes THEN coalesce(s.due_at, p_at) END
        FROM (
            SELECT c.scope_id, c.is_active AND c.consolidate AND c.dead_run_id IS NULL AND (c.rebuild OR c.last_seq > c.held_seq)
                AND wanted.pending <= (
                    SELECT count(*)
                    FROM (
                        SELECT FROM memory.pending_observations(c.agent_key, c.scope_id, c.done_seq) LIMIT wanted.pending
                    ) enough
                ) AS yes
            FROM memory.scopes c
            CROSS JOIN LATERAL (
                SELECT CASE WHEN c.rebuild THEN 1 ELSE coalesce(c.consolidation_threshold, p_threshold) END AS pending
            ) wanted
            WHERE c.agent_key = p_agent AND c.scope_id = ANY (p_scopes)
        ) is_due
        WHERE s.agent_key = p_agent AND s.scope_id = is_due.scope_id
          AND (s.due_at IS NOT NULL) IS DISTINCT FROM is_due.yes
        RETURNING s.due_at
    )
    SELECT pg_notify('memory_due', '') FROM changed WHERE due_at IS NOT NULL LIMIT 1
$$;

COMMENT ON FUNCTION memory.refresh_due(bigint, bigint[], integer, timestamptz) IS
    'Sets or clears scopes.due_at from what is pending.';
"""


def upgrade() -> None:
    op.execute(f"DROP FUNCTION memory.add_messages({ADD_MESSAGES_KEY_BEFORE})")
    op.execute(f"DROP FUNCTION memory.due_reason({DUE_REASON_KEY})")
    for script in (FORMATION_DUE, ADD_MESSAGES, REFRESH_DUE):
        for statement in statements_of(script):
            op.execute(statement)
    # What the function before stored after the column had been added.
    op.execute(
        "UPDATE memory.sessions s SET unformed_since = (SELECT min(m.created_at) FROM memory.messages m"
        " WHERE m.agent_key = s.agent_key AND m.session_id = s.session_id AND m.number > s.formed_number AND m.eligible)"
        " WHERE s.unformed_messages > 0"
    )


def downgrade() -> None:
    op.execute(f"DROP FUNCTION memory.add_messages({ADD_MESSAGES_KEY})")
    op.execute(f"DROP FUNCTION memory.formation_due({FORMATION_DUE_KEY})")
    for script in (DUE_REASON_BEFORE, ADD_MESSAGES_BEFORE, REFRESH_DUE_BEFORE):
        for statement in statements_of(script):
            op.execute(statement)


def statements_of(script: str) -> list[str]:
    """asyncpg prepares one statement at a time; each begins at the start of a line, bodies are indented."""
    return re.split(r";\s*\n(?=(?:CREATE|COMMENT) )", script.strip().removesuffix(";"))
