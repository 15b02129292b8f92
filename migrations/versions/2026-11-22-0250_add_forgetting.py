"""Add forgetting: the closure of what goes, taking it out, texts that wait to be written anew

Frozen: imports nothing of memory_sql.

Revision ID: 6d0f4b8a1e53
Revises: 3b91d7f0a4c2
Create Date: 2026-11-22 02:50:00+00:00
"""

from __future__ import annotations

import re

import sqlalchemy as sa
from alembic import op

revision = "6d0f4b8a1e53"
down_revision = "3b91d7f0a4c2"
branch_labels = None
depends_on = None

FORGET_CLOSURE = r"""
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
-- What an open hold covers stays, and is counted.
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
                ELSE s.owner = 'u:' || h.target OR h.target = ANY (o.related_users)
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
                    WHEN 'user' THEN m.user_id = h.target
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

TAINTED_VERSIONS = r"""
-- memory.tainted_versions(agent_key, scopes, scope_ids, seqs): the versions of texts that hold what goes. One row per
-- version, live or undone: those of `scopes`, those that absorbed one of the observations (scope_ids[i], seqs[i]), and
-- those that were written on top of such a one. What a live version passed over is known: it still waits, or another live
-- one lists it among its extras. Of an undone one it isn't, so its whole range counts.
CREATE OR REPLACE FUNCTION memory.tainted_versions(
    p_agent bigint, p_scopes bigint[], p_scope_ids bigint[], p_seqs integer[]
) RETURNS TABLE (scope_id bigint, version integer, live boolean)
LANGUAGE sql STABLE
AS $$
    WITH RECURSIVE tainted AS (
        SELECT c.scope_id, c.version, c.live
        FROM memory.consolidations c
        WHERE c.agent_key = p_agent AND (
            c.scope_id = ANY (p_scopes)
            OR EXISTS (
                SELECT FROM unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
                LEFT JOIN memory.observation_states t
                    ON t.agent_key = p_agent AND t.scope_id = k.scope_id AND t.seq = k.seq
                WHERE k.scope_id = c.scope_id AND (
                    k.seq = ANY (c.extra_seqs)
                    OR k.seq > c.from_seq AND k.seq <= c.to_seq AND NOT (c.live AND (
                        coalesce(t.repend, false)
                        OR EXISTS (
                            SELECT FROM memory.consolidations e
                            WHERE e.agent_key = p_agent AND e.scope_id = k.scope_id AND e.live
                              AND k.seq = ANY (e.extra_seqs)
                        )
                    ))
                )
            )
        )
        UNION
        SELECT c.scope_id, c.version, c.live
        FROM tainted b
        JOIN memory.consolidations c ON c.agent_key = p_agent AND c.scope_id = b.scope_id AND c.base = b.version
    )
    SELECT scope_id, version, live FROM tainted
$$;

COMMENT ON FUNCTION memory.tainted_versions(bigint, bigint[], bigint[], integer[]) IS
    'The versions of texts that hold any of these observations, or were written on top of such a one.';
"""

ERASE = r"""
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

ERASE_AGENT = r"""
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

REFRESH_DUE = r"""
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

TEXT_STATISTICS = r"""
-- memory.text_statistics: not a function. Keeps the planner's statistics free of remembered text: ANALYZE would copy the
-- commonest values of a column into pg_statistic, where they outlive their rows.
DO $$
DECLARE
    v_column record;
BEGIN
    FOR v_column IN
        SELECT * FROM (VALUES
            ('messages', 'content'), ('messages', 'speaker'), ('observations', 'content'), ('observations', 'speaker'),
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

REFRESH_DUE_BEFORE = r"""
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

MADE = (
    "forget_closure(bigint, text[], text[], bigint[], bigint[], integer[], text[], bigint[])",
    "erase(bigint, bigint[], integer[], text[], bigint[], bigint[], bigint[], text[], timestamptz)",
    "tainted_versions(bigint, bigint[], bigint[], integer[])",
    "erase_agent(bigint)",
)


def upgrade() -> None:
    op.add_column(
        "scopes",
        sa.Column(
            "rebuild",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="True: its text was taken away, since something in it was forgotten; it is due whatever the threshold.",
        ),
        schema="memory",
    )
    for script in (REFRESH_DUE, FORGET_CLOSURE, TAINTED_VERSIONS, ERASE, ERASE_AGENT, TEXT_STATISTICS):
        run(script)


def downgrade() -> None:
    run(re.sub(r"SET STATISTICS 0", "SET STATISTICS -1", TEXT_STATISTICS))
    for function in MADE:
        op.execute(f"DROP FUNCTION memory.{function}")
    run(REFRESH_DUE_BEFORE)
    op.drop_column("scopes", "rebuild", schema="memory")


def run(script: str) -> None:
    """asyncpg prepares one statement at a time; each begins at the start of a line, bodies are indented."""
    for statement in re.split(r";\s*\n(?=(?:CREATE|COMMENT) )", script.strip().removesuffix(";")):
        op.execute(statement)
