"""Create the functions, triggers and views

Frozen: imports nothing of memory_sql.

Revision ID: 8c2f4e9d6b03
Revises: 5d1c0b7ae214
Create Date: 2026-11-21 23:11:00+00:00
"""

from __future__ import annotations

import re

from alembic import op

revision = "8c2f4e9d6b03"
down_revision = "5d1c0b7ae214"
branch_labels = None
depends_on = None

VISIBLE_SCOPES = """
-- memory.visible_scopes(agent, user, session, as_of): what a principal may see. One row per scope. The only place where
-- that is decided; every read joins it. A null user or agent sees nothing. A group is visible to whoever is a member now
-- (and was one at as_of); a session's scope to those who took part in it. Inactive scopes are included.
CREATE OR REPLACE FUNCTION memory.visible_scopes(
    p_agent text, p_user text, p_session text DEFAULT NULL, p_as_of timestamptz DEFAULT NULL
) RETURNS TABLE (agent_key bigint, scope_id bigint)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT s.agent_key, s.scope_id
    FROM memory.agents a
    JOIN memory.scopes s ON s.agent_key = a.agent_key
    WHERE a.agent_id = p_agent
      AND p_user IS NOT NULL
      AND s.owner = ANY (
          ARRAY['c', 'a', 'u:' || p_user]
          || ARRAY(
              SELECT g.owner
              FROM memory.members m
              JOIN memory.scopes g ON g.agent_key = m.agent_key AND g.scope_id = m.scope_id
              WHERE m.agent_key = a.agent_key AND m.user_id = p_user AND m.left_at IS NULL AND g.kind = 'group'
                AND (p_as_of IS NULL OR m.joined_at <= p_as_of)
          )
          || ARRAY(
              SELECT 's:' || t.session_id
              FROM memory.sessions t
              WHERE t.agent_key = a.agent_key AND t.session_id = p_session AND p_user = ANY (t.participants)
          )
      )
$$;

COMMENT ON FUNCTION memory.visible_scopes(text, text, text, timestamptz) IS
    'The scopes that a user of an agent may see; one row per scope.';
"""

PENDING_OBSERVATIONS = """
-- memory.pending_observations(agent_key, scope_id, done_seq): the active observations that no live version has absorbed.
-- One row per observation. Two arms, so that each is a range of an index: what came after the watermark, and what was
-- passed over by it.
CREATE OR REPLACE FUNCTION memory.pending_observations(p_agent bigint, p_scope bigint, p_done integer)
RETURNS SETOF memory.observations
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT o.*
    FROM memory.observations o
    WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.seq > p_done AND o.lane = 'absorb'
      AND NOT EXISTS (
          SELECT FROM memory.observation_states t
          WHERE t.agent_key = p_agent AND t.scope_id = p_scope AND t.seq = o.seq AND t.status <> 'active'
      )
    UNION ALL
    SELECT o.*
    FROM memory.observation_states t
    JOIN memory.observations o ON o.agent_key = t.agent_key AND o.scope_id = t.scope_id AND o.seq = t.seq
    WHERE t.agent_key = p_agent AND t.scope_id = p_scope AND t.seq <= p_done AND t.repend AND t.status = 'active'
      AND o.lane = 'absorb'
$$;

COMMENT ON FUNCTION memory.pending_observations(bigint, bigint, integer) IS
    'The observations of a scope that wait for its next consolidation; one row per observation.';
"""

REFRESH_DUE = """
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

ADD_MESSAGES = """
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

REFUSE_CHANGE = """
-- memory.refuse_change(): trigger. What was remembered and what was written of it never change; a correction is a new row.
CREATE OR REPLACE FUNCTION memory.refuse_change() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'rows of %.% never change', TG_TABLE_SCHEMA, TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END
$$;

COMMENT ON FUNCTION memory.refuse_change() IS 'Keeps observations and consolidated texts as they were written.';

CREATE OR REPLACE TRIGGER observations_never_change
BEFORE UPDATE OF content, observed_at, content_hash, hash_version ON memory.observations
FOR EACH ROW WHEN (
    (OLD.content, OLD.observed_at, OLD.content_hash, OLD.hash_version)
    IS DISTINCT FROM (NEW.content, NEW.observed_at, NEW.content_hash, NEW.hash_version)
)
EXECUTE FUNCTION memory.refuse_change();

CREATE OR REPLACE TRIGGER consolidations_never_change
BEFORE UPDATE ON memory.consolidations
FOR EACH ROW WHEN (
    (OLD.version, OLD.base, OLD.from_seq, OLD.to_seq, OLD.extra_seqs, OLD.content, OLD.created_at)
    IS DISTINCT FROM (NEW.version, NEW.base, NEW.from_seq, NEW.to_seq, NEW.extra_seqs, NEW.content, NEW.created_at)
)
EXECUTE FUNCTION memory.refuse_change();
"""

V_OBSERVATIONS = """
-- memory.v_observations: every observation with its scope and state. One row per observation.
-- absorbed_by: the live version of the scope's text that holds it; null while it is pending or set aside.
CREATE OR REPLACE VIEW memory.v_observations AS
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
CREATE OR REPLACE VIEW memory.v_scope_timeline AS
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

V_PENDING = """
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


def upgrade() -> None:
    for script in (
        VISIBLE_SCOPES,
        PENDING_OBSERVATIONS,
        REFRESH_DUE,
        ADD_MESSAGES,
        REFUSE_CHANGE,
        V_OBSERVATIONS,
        V_SCOPE_TIMELINE,
        V_PENDING,
    ):
        for statement in statements_of(script):
            op.execute(statement)


def downgrade() -> None:
    op.execute("DROP VIEW memory.v_pending, memory.v_scope_timeline, memory.v_observations")
    op.execute("DROP TRIGGER consolidations_never_change ON memory.consolidations")
    op.execute("DROP TRIGGER observations_never_change ON memory.observations")
    for function in (
        "refuse_change()",
        "add_messages(text, text, text, text[], jsonb, integer, integer, integer, interval, timestamptz)",
        "refresh_due(bigint, bigint[], integer, timestamptz)",
        "pending_observations(bigint, bigint, integer)",
        "visible_scopes(text, text, text, timestamptz)",
    ):
        op.execute(f"DROP FUNCTION memory.{function}")


def statements_of(script: str) -> list[str]:
    """asyncpg prepares one statement at a time; each begins at the start of a line, bodies are indented."""
    return re.split(r";\s*\n(?=(?:CREATE|COMMENT) )", script.strip().removesuffix(";"))
