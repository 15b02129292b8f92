"""Let what a user may see count what those ids may see that stand for them

Frozen: imports nothing of memory_sql.

Revision ID: 5d20c7e8b316
Revises: d08e5b7c42a9
Create Date: 2026-11-22 03:20:00+00:00
"""

from __future__ import annotations

import re

from alembic import op

revision = "5d20c7e8b316"
down_revision = "d08e5b7c42a9"
branch_labels = None
depends_on = None

USER_IDS = """
-- memory.user_ids(agent_key, user, as_of): the ids that a user goes by: their own, and those that stand for them, also
-- through others. One row per id. A null user has none. What was merged after `as_of` isn't among them. UNION, not UNION
-- ALL: a circle, which nothing lets come about, would end here all the same.
CREATE OR REPLACE FUNCTION memory.user_ids(p_agent bigint, p_user text, p_as_of timestamptz DEFAULT NULL)
RETURNS TABLE (user_id text)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    WITH RECURSIVE mine (user_id) AS (
        SELECT p_user WHERE p_user IS NOT NULL
        UNION
        SELECT l.user_id
        FROM mine
        JOIN memory.user_aliases l ON l.into_user_id = mine.user_id
        WHERE l.agent_key = p_agent AND l.ended_at IS NULL AND (p_as_of IS NULL OR l.created_at <= p_as_of)
    )
    SELECT m.user_id FROM mine m
$$;

COMMENT ON FUNCTION memory.user_ids(bigint, text, timestamptz) IS
    'The ids that a user goes by: their own and those that stand for them; one row per id.';
"""

VISIBLE_SCOPES_BEFORE = """
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

VISIBLE_SCOPES = """
-- memory.visible_scopes(agent, user, session, as_of): what a principal may see. One row per scope. The only place where
-- that is decided; every read joins it. A null user or agent sees nothing. A group is visible to whoever is a member now
-- (and was one at as_of); a session's scope to those who took part in it. Inactive scopes are included. A user is all the
-- ids that they go by (memory.user_ids).
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
          ARRAY['c', 'a']
          || ARRAY(SELECT 'u:' || i.user_id FROM memory.user_ids(a.agent_key, p_user, p_as_of) i)
          || ARRAY(
              SELECT g.owner
              FROM memory.user_ids(a.agent_key, p_user, p_as_of) i
              JOIN memory.members m ON m.agent_key = a.agent_key AND m.user_id = i.user_id
              JOIN memory.scopes g ON g.agent_key = m.agent_key AND g.scope_id = m.scope_id
              WHERE m.left_at IS NULL AND g.kind = 'group'
                AND (p_as_of IS NULL OR m.joined_at <= p_as_of)
          )
          || ARRAY(
              SELECT 's:' || t.session_id
              FROM memory.sessions t
              WHERE t.agent_key = a.agent_key AND t.session_id = p_session
                AND t.participants && ARRAY(SELECT i.user_id FROM memory.user_ids(a.agent_key, p_user, p_as_of) i)
          )
      )
$$;

COMMENT ON FUNCTION memory.visible_scopes(text, text, text, timestamptz) IS
    'The scopes that a user of an agent may see; one row per scope.';
"""


def upgrade() -> None:
    for script in (USER_IDS, VISIBLE_SCOPES):
        for statement in statements_of(script):
            op.execute(statement)


def downgrade() -> None:
    for statement in statements_of(VISIBLE_SCOPES_BEFORE):
        op.execute(statement)
    op.execute("DROP FUNCTION memory.user_ids(bigint, text, timestamptz)")


def statements_of(script: str) -> list[str]:
    """asyncpg prepares one statement at a time; each begins at the start of a line, bodies are indented."""
    return re.split(r";\s*\n(?=(?:CREATE|COMMENT) )", script.strip().removesuffix(";"))
