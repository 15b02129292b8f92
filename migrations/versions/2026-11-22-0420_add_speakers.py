"""Add speakers to scopes

Frozen: imports nothing of memory_sql.

Revision ID: c41e7a90b3d8
Revises: c7e20d5f83ab
Create Date: 2026-11-22 04:20:00+00:00
"""

from __future__ import annotations

import re

import sqlalchemy as sa
from alembic import op

revision = "c41e7a90b3d8"
down_revision = "c7e20d5f83ab"
branch_labels = None
depends_on = None

SPEAKERS_OF = """
-- memory.speakers_of(agent_key, scope_id): who speaks in the observations of a scope, by name, whoever spoke last first; at
-- most the 50 of memory.newest_speakers. It is what scopes.speakers says; to be asked where observations go.
CREATE OR REPLACE FUNCTION memory.newest_speakers(p_names text[]) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT ARRAY(
        SELECT n.name
        FROM unnest(p_names) WITH ORDINALITY AS n (name, place)
        WHERE n.name IS NOT NULL
        GROUP BY n.name
        ORDER BY min(n.place)
        LIMIT 50
    )
$$;

COMMENT ON FUNCTION memory.newest_speakers(text[]) IS 'The first 50 of these names, each once.';

CREATE OR REPLACE FUNCTION memory.speakers_of(p_agent bigint, p_scope bigint) RETURNS text[]
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT memory.newest_speakers(ARRAY(
        SELECT o.speaker
        FROM memory.observations o
        WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.speaker IS NOT NULL
        GROUP BY o.speaker
        ORDER BY max(o.seq) DESC
    ))
$$;

COMMENT ON FUNCTION memory.speakers_of(bigint, bigint) IS
    'Who speaks in the observations of a scope, whoever spoke last first.';
"""

STATIC_LAYER = """
-- memory.static_layer(agent, user, session, pending_max): what a context shows of every scope that the principal may see.
-- One row per active scope, unordered: its text, at most pending_max of its newest pending observations, in three arrays of
-- equal length, newest first, and of its disputed ones likewise; null where there are none; and who speaks in it. The agent's
-- own settings are the same on each row, null where it has none; where there is no scope one row has them alone. Among them
-- may be a pending_max, which counts instead of the given one. Row-level policies don't stand between it and the tables: it
-- runs as its owner and asks memory.visible_scopes itself, so that it is one round trip, without naming a principal first.
CREATE OR REPLACE FUNCTION memory.static_layer(p_agent text, p_user text, p_session text, p_pending_max bigint)
RETURNS TABLE (
    scope_id bigint, kind text, owner text, name text, display_name text, consolidation text, version integer,
    pending_seqs integer[], pending_contents text[], pending_times timestamptz[],
    disputed_seqs integer[], disputed_contents text[], disputed_times timestamptz[],
    speakers text[], settings jsonb
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_settings jsonb;
    v_pending_max bigint;
BEGIN
    SELECT nullif(a.settings, '{}'), coalesce((a.settings ->> 'pending_max')::bigint, p_pending_max) INTO v_settings, v_pending_max
    FROM memory.agents a
    WHERE a.agent_id = p_agent AND p_user IS NOT NULL;
    RETURN QUERY
    SELECT s.scope_id, s.kind, s.owner, s.name, s.display_name, s.consolidation, s.version, p.seqs, p.contents, p.times,
           d.seqs, d.contents, d.times, s.speakers, v_settings
    FROM memory.visible_scopes(p_agent, p_user, p_session) v
    JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id
    CROSS JOIN LATERAL (
        SELECT array_agg(n.seq) AS seqs, array_agg(n.content) AS contents, array_agg(n.observed_at) AS times
        FROM (
            SELECT o.seq, o.content, o.observed_at
            FROM memory.pending_observations(s.agent_key, s.scope_id, s.done_seq) o
            ORDER BY o.seq DESC
            LIMIT v_pending_max
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
            LIMIT v_pending_max
        ) n
    ) d
    WHERE s.is_active;
    IF NOT FOUND AND v_settings IS NOT NULL THEN
        settings := v_settings;
        RETURN NEXT;
    END IF;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.static_layer(text, text, text, bigint) FROM PUBLIC;

COMMENT ON FUNCTION memory.static_layer(text, text, text, bigint) IS
    'The texts and newest pending observations of the scopes that a user of an agent may see; one row per scope.';
"""

STATIC_LAYER_AT = """
-- memory.static_layer_at(agent, user, session, pending_max, as_of): as memory.static_layer, at a moment of recorded time. One
-- row per active scope that was there, unordered: the text that was the newest live one then, and what was pending. What is disputed,
-- who speaks, and the agent's settings are said as of now.
CREATE OR REPLACE FUNCTION memory.static_layer_at(
    p_agent text, p_user text, p_session text, p_pending_max bigint, p_as_of timestamptz
) RETURNS TABLE (
    scope_id bigint, kind text, owner text, name text, display_name text, consolidation text, version integer,
    pending_seqs integer[], pending_contents text[], pending_times timestamptz[],
    disputed_seqs integer[], disputed_contents text[], disputed_times timestamptz[],
    speakers text[], settings jsonb
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_settings jsonb;
    v_pending_max bigint;
BEGIN
    SELECT nullif(a.settings, '{}'), coalesce((a.settings ->> 'pending_max')::bigint, p_pending_max) INTO v_settings, v_pending_max
    FROM memory.agents a
    WHERE a.agent_id = p_agent AND p_user IS NOT NULL;
    RETURN QUERY
    WITH known AS MATERIALIZED (
        SELECT k.* FROM memory.known_at(p_agent, p_user, p_session, p_as_of) k WHERE k.pending
    )
    SELECT s.scope_id, s.kind, s.owner, s.name, s.display_name, c.content, coalesce(c.version, 0), p.seqs, p.contents, p.times,
           d.seqs, d.contents, d.times, s.speakers, v_settings
    FROM memory.visible_scopes(p_agent, p_user, p_session, p_as_of) v
    JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id
    LEFT JOIN LATERAL (
        SELECT c.content, c.version
        FROM memory.consolidations c
        WHERE c.agent_key = s.agent_key AND c.scope_id = s.scope_id
          AND c.created_at <= p_as_of AND (c.live_until IS NULL OR c.live_until > p_as_of)
        ORDER BY c.version DESC
        LIMIT 1
    ) c ON true
    CROSS JOIN LATERAL (
        SELECT array_agg(n.seq) AS seqs, array_agg(n.content) AS contents, array_agg(n.observed_at) AS times
        FROM (
            SELECT o.seq, o.content, o.observed_at
            FROM known k
            JOIN memory.observations o ON o.agent_key = k.agent_key AND o.scope_id = k.scope_id AND o.seq = k.seq
            WHERE k.scope_id = s.scope_id
            ORDER BY o.seq DESC
            LIMIT v_pending_max
        ) n
    ) p
    CROSS JOIN LATERAL (
        SELECT array_agg(n.seq) AS seqs, array_agg(n.content) AS contents, array_agg(n.observed_at) AS times
        FROM (
            SELECT o.seq, o.content, o.observed_at
            FROM memory.observation_states t
            JOIN memory.observations o ON o.agent_key = t.agent_key AND o.scope_id = t.scope_id AND o.seq = t.seq
            WHERE t.agent_key = s.agent_key AND t.scope_id = s.scope_id AND t.verification = 'disputed'
              AND t.status = 'active' AND o.created_at <= p_as_of
            ORDER BY o.seq DESC
            LIMIT v_pending_max
        ) n
    ) d
    WHERE s.is_active AND s.created_at <= p_as_of;
    IF NOT FOUND AND v_settings IS NOT NULL THEN
        settings := v_settings;
        RETURN NEXT;
    END IF;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.static_layer_at(text, text, text, bigint, timestamptz) FROM PUBLIC;

COMMENT ON FUNCTION memory.static_layer_at(text, text, text, bigint, timestamptz) IS
    'The texts and newest pending observations that a user of an agent would have been shown at a moment; one row per scope.';
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
    v_heard bigint[] := ARRAY(
        SELECT DISTINCT e.scope_id
        FROM memory.evidence e
        WHERE e.agent_key = p_agent AND e.evidence_id = ANY (p_evidence_ids)
    );
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

    UPDATE memory.scopes s
    SET speakers = memory.speakers_of(s.agent_key, s.scope_id)
    WHERE s.agent_key = p_agent AND s.scope_id = ANY (v_touched || v_heard) AND s.speakers <> '{}';

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
            ('holds', 'reason'), ('scopes', 'speakers')
        ) AS c (table_name, column_name)
    LOOP
        EXECUTE format(
            'ALTER TABLE memory.%I ALTER COLUMN %I SET STATISTICS 0', v_column.table_name, v_column.column_name
        );
    END LOOP;
END
$$;
"""

STATIC_LAYER_BEFORE = """
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

STATIC_LAYER_AT_BEFORE = """
-- memory.static_layer_at(agent, user, session, pending_max, as_of): as memory.static_layer, at a moment of recorded time. One
-- row per active scope that was there, unordered: the text that was the newest live one then, and what was pending. What is disputed is
-- said as of now.
CREATE OR REPLACE FUNCTION memory.static_layer_at(
    p_agent text, p_user text, p_session text, p_pending_max bigint, p_as_of timestamptz
) RETURNS TABLE (
    scope_id bigint, kind text, owner text, name text, display_name text, consolidation text, version integer,
    pending_seqs integer[], pending_contents text[], pending_times timestamptz[],
    disputed_seqs integer[], disputed_contents text[], disputed_times timestamptz[]
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH known AS MATERIALIZED (
        SELECT k.* FROM memory.known_at(p_agent, p_user, p_session, p_as_of) k WHERE k.pending
    )
    SELECT s.scope_id, s.kind, s.owner, s.name, s.display_name, c.content, coalesce(c.version, 0), p.seqs, p.contents, p.times,
           d.seqs, d.contents, d.times
    FROM memory.visible_scopes(p_agent, p_user, p_session, p_as_of) v
    JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id
    LEFT JOIN LATERAL (
        SELECT c.content, c.version
        FROM memory.consolidations c
        WHERE c.agent_key = s.agent_key AND c.scope_id = s.scope_id
          AND c.created_at <= p_as_of AND (c.live_until IS NULL OR c.live_until > p_as_of)
        ORDER BY c.version DESC
        LIMIT 1
    ) c ON true
    CROSS JOIN LATERAL (
        SELECT array_agg(n.seq) AS seqs, array_agg(n.content) AS contents, array_agg(n.observed_at) AS times
        FROM (
            SELECT o.seq, o.content, o.observed_at
            FROM known k
            JOIN memory.observations o ON o.agent_key = k.agent_key AND o.scope_id = k.scope_id AND o.seq = k.seq
            WHERE k.scope_id = s.scope_id
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
              AND t.status = 'active' AND o.created_at <= p_as_of
            ORDER BY o.seq DESC
            LIMIT p_pending_max
        ) n
    ) d
    WHERE s.is_active AND s.created_at <= p_as_of;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.static_layer_at(text, text, text, bigint, timestamptz) FROM PUBLIC;

COMMENT ON FUNCTION memory.static_layer_at(text, text, text, bigint, timestamptz) IS
    'The texts and newest pending observations that a user of an agent would have been shown at a moment; one row per scope.';
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

BACKFILL = """
UPDATE memory.scopes s
SET speakers = memory.speakers_of(s.agent_key, s.scope_id)
WHERE EXISTS (
    SELECT FROM memory.observations o
    WHERE o.agent_key = s.agent_key AND o.scope_id = s.scope_id AND o.speaker IS NOT NULL
)
"""

LAYERS = ("static_layer(text, text, text, bigint)", "static_layer_at(text, text, text, bigint, timestamptz)")


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '3s'")
    op.add_column(
        "scopes",
        sa.Column(
            "speakers",
            sa.ARRAY(sa.Text()),
            server_default=sa.text("'{}'::text[]"),
            nullable=False,
            comment="Who speaks in its observations, by name, whoever spoke last first; the newest 50.",
        ),
        schema="memory",
    )
    run(SPEAKERS_OF)
    run(BACKFILL)
    replace_layers(STATIC_LAYER, STATIC_LAYER_AT)
    run(ERASE)
    run(TEXT_STATISTICS)


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '3s'")
    run(ERASE_BEFORE)
    replace_layers(STATIC_LAYER_BEFORE, STATIC_LAYER_AT_BEFORE)
    op.execute("DROP FUNCTION memory.speakers_of(bigint, bigint)")
    op.execute("DROP FUNCTION memory.newest_speakers(text[])")
    op.drop_column("scopes", "speakers", schema="memory")


def replace_layers(*functions: str) -> None:
    """Made anew: what a function returns can't be changed."""
    for signature in LAYERS:
        op.execute(f"DROP FUNCTION memory.{signature}")
    for function in functions:
        run(function)


def run(script: str) -> None:
    """asyncpg prepares one statement at a time; each begins at the start of a line, bodies are indented."""
    for statement in re.split(r";\s*\n(?=(?:CREATE|COMMENT|REVOKE) )", script.strip().removesuffix(";")):
        op.execute(statement)
