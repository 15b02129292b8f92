"""Add what retries need: counters, giving up, exclusion, held scopes, waking

Frozen: imports nothing of memory_sql.

Revision ID: c41f7a92d5e8
Revises: 8c2f4e9d6b03
Create Date: 2026-11-22 00:05:00+00:00
"""

from __future__ import annotations

import re

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "c41f7a92d5e8"
down_revision = "8c2f4e9d6b03"
branch_labels = None
depends_on = None

OLD_ADD = "add_messages(text, text, text, text[], jsonb, integer, integer, integer, interval, timestamptz)"
NEW_ADD = "add_messages(text, text, text, text[], jsonb, integer, integer, integer, interval, timestamptz, boolean)"
STATES = "running, answered, succeeded, empty, failed, dead (given up, waits for a person) or discarded."
STATES_BEFORE = "running, answered, succeeded, empty (nothing worth keeping) or failed."
CHECKS = (
    ("scopes", "consolidation", "version > 0 OR consolidation IS NULL", "(version = 0) = (consolidation IS NULL)"),
    (
        "runs",
        "state",
        "state IN ('running', 'answered', 'succeeded', 'empty', 'failed', 'dead', 'discarded')",
        "state IN ('running', 'answered', 'succeeded', 'empty', 'failed')",
    ),
    (
        "runs",
        "error_code",
        "(state IN ('failed', 'dead', 'discarded')) = (error_code IS NOT NULL)",
        "(state = 'failed') = (error_code IS NOT NULL)",
    ),
)

REFRESH_DUE = """
-- memory.refresh_due(agent_key, scope_ids, threshold, at): says anew which of these scopes are due, and wakes the workers
-- when one has become so. Belongs at the end of every transaction that adds observations or changes their status, lane or
-- the watermark; the caller holds the scopes' row locks. A scope that was due already keeps its time. One that was given
-- up waits for a person; one whose text was just undone waits for something new.
CREATE OR REPLACE FUNCTION memory.refresh_due(p_agent bigint, p_scopes bigint[], p_threshold integer, p_at timestamptz)
RETURNS void
LANGUAGE sql VOLATILE
AS $$
    WITH changed AS (
        UPDATE memory.scopes s
        SET due_at = CASE WHEN is_due.yes THEN coalesce(s.due_at, p_at) END
        FROM (
            SELECT c.scope_id, c.is_active AND c.consolidate AND c.dead_run_id IS NULL AND c.last_seq > c.held_seq
                AND wanted.pending <= (
                    SELECT count(*)
                    FROM (
                        SELECT FROM memory.pending_observations(c.agent_key, c.scope_id, c.done_seq) LIMIT wanted.pending
                    ) enough
                ) AS yes
            FROM memory.scopes c
            CROSS JOIN LATERAL (SELECT coalesce(c.consolidation_threshold, p_threshold) AS pending) wanted
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

REFRESH_DUE_BEFORE = """
-- memory.refresh_due(agent_key, scope_ids, threshold, at): says anew which of these scopes are due. Belongs at the end of
-- every transaction that adds observations or changes their status, lane or the watermark; the caller holds the scopes'
-- row locks. A scope that was due already keeps its time.
CREATE OR REPLACE FUNCTION memory.refresh_due(p_agent bigint, p_scopes bigint[], p_threshold integer, p_at timestamptz)
RETURNS void
LANGUAGE sql VOLATILE
AS $$
    UPDATE memory.scopes s
    SET due_at = CASE WHEN is_due.yes THEN coalesce(s.due_at, p_at) END
    FROM (
        SELECT c.scope_id, c.is_active AND c.consolidate AND wanted.pending <= (
            SELECT count(*)
            FROM (
                SELECT FROM memory.pending_observations(c.agent_key, c.scope_id, c.done_seq) LIMIT wanted.pending
            ) enough
        ) AS yes
        FROM memory.scopes c
        CROSS JOIN LATERAL (SELECT coalesce(c.consolidation_threshold, p_threshold) AS pending) wanted
        WHERE c.agent_key = p_agent AND c.scope_id = ANY (p_scopes)
    ) is_due
    WHERE s.agent_key = p_agent AND s.scope_id = is_due.scope_id
      AND (s.due_at IS NOT NULL) IS DISTINCT FROM is_due.yes
$$;

COMMENT ON FUNCTION memory.refresh_due(bigint, bigint[], integer, timestamptz) IS
    'Sets or clears scopes.due_at from what is pending.';
"""

DUE_REASON = """
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

ADD_MESSAGES = """
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

ADD_MESSAGES_BEFORE = """
-- memory.add_messages(…): stores the messages that aren't there yet, counts them and says whether the session is due.
-- One row. In one statement for the caller, in its transaction. A message is known by its id within the session, also
-- after its text has gone. Everything is counted under the session's row lock, so that two calls at once can't both miss
-- a threshold. `p_messages` is an array of objects: id, role, user_id, speaker, content, cleaned, weight, eligible,
-- signal, said_at. Group scopes are made where missing; the user and the writers become members unless they ever were:
-- somebody who left doesn't come back by a late message.
CREATE OR REPLACE FUNCTION memory.add_messages(
    p_agent text, p_session text, p_user text, p_groups text[], p_messages jsonb,
    p_due_messages integer, p_due_tokens integer, p_min_messages integer, p_cold interval, p_at timestamptz,
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
        SELECT v_agent, p_session, v_session.last_number + i, id, role, user_id, speaker, content, cleaned, weight, eligible,
               signal, coalesce(said_at, v_at), v_at
        FROM new
        RETURNING user_id, weight, eligible, signal
    )
    SELECT count(*), count(*) FILTER (WHERE eligible), coalesce(sum(weight), 0), bool_or(signal IS NOT NULL),
           array_agg(DISTINCT user_id) FILTER (WHERE user_id IS NOT NULL)
    INTO accepted, v_count, v_tokens, v_signal, v_users
    FROM stored;

    v_users := ARRAY(SELECT DISTINCT u FROM unnest(v_session.participants || v_users || p_user) u WHERE u IS NOT NULL ORDER BY u);
    last_number := v_session.last_number + accepted;
    unformed_messages := v_session.unformed_messages + v_count;
    unformed_tokens := v_session.unformed_tokens + v_tokens;
    due_reason := CASE
        WHEN v_signal OR v_session.due_reason IN ('signal', 'retry') THEN coalesce(nullif(v_session.due_reason, 'cold'), 'signal')
        WHEN unformed_messages >= p_due_messages THEN 'messages'
        WHEN unformed_messages >= p_min_messages AND unformed_tokens >= p_due_tokens THEN 'tokens'
        WHEN unformed_messages >= p_min_messages THEN 'cold'
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

    UPDATE memory.sessions s
    SET last_number = add_messages.last_number,
        unformed_messages = add_messages.unformed_messages,
        unformed_tokens = add_messages.unformed_tokens,
        due_at = add_messages.due_at,
        due_reason = add_messages.due_reason,
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
    text, text, text, text[], jsonb, integer, integer, integer, interval, timestamptz
) IS 'Stores the messages that are new, once, and says whether the session is due; one row.';
"""


def upgrade() -> None:
    op.add_column("scopes", held_seq(), schema="memory")
    op.add_column(
        "sessions",
        sa.Column(
            "excluded",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="True: what is said in it is not to be remembered.",
        ),
        schema="memory",
    )
    op.add_column("runs", seen(), schema="memory")
    for table in ("scopes", "sessions"):
        for column in counters():
            op.add_column(table, column, schema="memory")
        op.create_check_constraint(
            op.f(f"{table}_dead_run_id_check"), table, "dead_run_id IS NULL OR due_at IS NULL", schema="memory"
        )
    for table, name, check, _ in CHECKS:
        replace_check(table, name, check)
    op.execute(f"COMMENT ON COLUMN memory.runs.state IS '{STATES}'")
    op.execute(f"DROP FUNCTION memory.{OLD_ADD}")
    run(REFRESH_DUE)
    run(DUE_REASON)
    run(ADD_MESSAGES)


def downgrade() -> None:
    # What was given up is a failure again, and due; what was discarded is a failure that stays passed over. A text that
    # was undone to nothing becomes an empty one: its version must go on rising.
    op.execute(
        "UPDATE memory.sessions SET due_at = now(), due_reason = 'retry', dead_run_id = NULL WHERE dead_run_id > 0"
    )
    op.execute("UPDATE memory.scopes SET due_at = now(), dead_run_id = NULL WHERE dead_run_id > 0")
    op.execute("UPDATE memory.runs SET state = 'failed' WHERE state IN ('dead', 'discarded')")
    op.execute("UPDATE memory.scopes SET consolidation = '' WHERE consolidation IS NULL AND version > 0")
    op.execute(f"DROP FUNCTION memory.{NEW_ADD}")
    op.execute("DROP FUNCTION memory.due_reason(integer, real, boolean, integer, integer, integer)")
    run(ADD_MESSAGES_BEFORE)
    run(REFRESH_DUE_BEFORE)
    op.execute(f"COMMENT ON COLUMN memory.runs.state IS '{STATES_BEFORE}'")
    for table, name, _, before in CHECKS:
        replace_check(table, name, before)
    for table in ("scopes", "sessions"):
        op.drop_constraint(op.f(f"{table}_dead_run_id_check"), table, schema="memory")
        for column in reversed(counters()):
            op.drop_column(table, column.name, schema="memory")
    op.drop_column("runs", "seen", schema="memory")
    op.drop_column("sessions", "excluded", schema="memory")
    op.drop_column("scopes", "held_seq", schema="memory")


def held_seq() -> sa.Column[int]:
    return sa.Column(
        "held_seq",
        sa.Integer(),
        server_default=sa.text("0"),
        nullable=False,
        comment="Not due before it gains an observation after this number (what an undo left).",
    )


def seen() -> sa.Column[object]:
    return sa.Column(
        "seen",
        postgresql.JSONB(),
        server_default=sa.text("'{}'::jsonb"),
        nullable=False,
        comment="What a formation's prompt showed: the epochs of its session and scopes, the scopes by their names in it.",
    )


def counters() -> list[sa.Column[int]]:
    zero = sa.text("0")
    return [
        sa.Column(
            "failures",
            sa.Integer(),
            server_default=zero,
            nullable=False,
            comment="Times in a row that the model gave no answer.",
        ),
        sa.Column(
            "errors",
            sa.Integer(),
            server_default=zero,
            nullable=False,
            comment="Answers in a row that could not be used.",
        ),
        sa.Column(
            "dead_run_id",
            sa.BigInteger(),
            nullable=True,
            comment="The run with which it was given up; null: it goes on.",
        ),
    ]


def replace_check(table: str, name: str, check: str) -> None:
    op.drop_constraint(op.f(f"{table}_{name}_check"), table, schema="memory")
    op.create_check_constraint(op.f(f"{table}_{name}_check"), table, check, schema="memory")


def run(script: str) -> None:
    """asyncpg prepares one statement at a time; each begins at the start of a line, bodies are indented."""
    for statement in re.split(r";\s*\n(?=(?:CREATE|COMMENT) )", script.strip().removesuffix(";")):
        op.execute(statement)
