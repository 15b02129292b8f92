"""Add reading as of a past moment

Frozen: imports nothing of memory_sql.

Revision ID: 8a4c0e92f7d6
Revises: 5d0c8e41b7a9
Create Date: 2026-11-22 03:50:00+00:00
"""

from __future__ import annotations

import re

from alembic import op

revision = "8a4c0e92f7d6"
down_revision = "5d0c8e41b7a9"
branch_labels = None
depends_on = None

KNOWN_AT = """
-- memory.known_at(agent, user, session, as_of): what was known at a moment of recorded time, of what the principal may see.
-- One row per observation that was there: its status then, and whether it was pending. The status is the one to which the
-- newest event before that moment changed it, else the one from which the first event after it did. Of a version that was
-- undone since it isn't known any more what it passed over: its whole range counts as absorbed while it was live. What was
-- forgotten since was never known. It runs as its owner, since events are nobody's to read, and asks
-- memory.visible_scopes itself.
CREATE OR REPLACE FUNCTION memory.known_at(p_agent text, p_user text, p_session text, p_as_of timestamptz)
RETURNS TABLE (agent_key bigint, scope_id bigint, seq integer, status text, pending boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT o.agent_key, o.scope_id, o.seq, then_.status,
           o.lane = 'absorb' AND then_.status = 'active' AND NOT EXISTS (
               SELECT FROM memory.consolidations c
               WHERE c.agent_key = o.agent_key AND c.scope_id = o.scope_id
                 AND c.created_at <= p_as_of AND (c.live_until IS NULL OR c.live_until > p_as_of)
                 AND (
                     o.seq = ANY (c.extra_seqs)
                     OR o.seq > c.from_seq AND o.seq <= c.to_seq
                        AND NOT (c.live AND coalesce(t.repend, false))
                        AND NOT EXISTS (
                            SELECT FROM memory.consolidations later
                            WHERE later.agent_key = c.agent_key AND later.scope_id = c.scope_id
                              AND later.version > c.version AND o.seq = ANY (later.extra_seqs)
                        )
                 )
           )
    FROM memory.visible_scopes(p_agent, p_user, p_session, p_as_of) v
    JOIN memory.observations o ON o.agent_key = v.agent_key AND o.scope_id = v.scope_id
    LEFT JOIN memory.observation_states t ON t.agent_key = o.agent_key AND t.scope_id = o.scope_id AND t.seq = o.seq
    CROSS JOIN LATERAL (
        SELECT coalesce(
            (
                SELECT e.detail ->> 'to'
                FROM memory.events e
                WHERE e.agent_key = o.agent_key AND e.scope_id = o.scope_id AND e.seq = o.seq AND e.kind = 'status'
                  AND e.created_at <= p_as_of
                ORDER BY e.created_at DESC, e.event_id DESC
                LIMIT 1
            ),
            (
                SELECT e.detail ->> 'from'
                FROM memory.events e
                WHERE e.agent_key = o.agent_key AND e.scope_id = o.scope_id AND e.seq = o.seq AND e.kind = 'status'
                  AND e.created_at > p_as_of
                ORDER BY e.created_at, e.event_id
                LIMIT 1
            ),
            CASE WHEN t.status_at <= p_as_of THEN t.status END,
            'active'
        ) AS status
    ) then_
    WHERE o.created_at <= p_as_of;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.known_at(text, text, text, timestamptz) FROM PUBLIC;

COMMENT ON FUNCTION memory.known_at(text, text, text, timestamptz) IS
    'What was known at a moment, of what a user of an agent may see; one row per observation.';
"""

STATIC_LAYER_AT = """
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


def upgrade() -> None:
    run(KNOWN_AT)
    run(STATIC_LAYER_AT)


def downgrade() -> None:
    op.execute("DROP FUNCTION memory.static_layer_at(text, text, text, bigint, timestamptz)")
    op.execute("DROP FUNCTION memory.known_at(text, text, text, timestamptz)")


def run(script: str) -> None:
    """asyncpg prepares one statement at a time; each begins at the start of a line, bodies are indented."""
    for statement in re.split(r";\s*\n(?=(?:CREATE|COMMENT|REVOKE) )", script.strip().removesuffix(";")):
        op.execute(statement)
