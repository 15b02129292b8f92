"""Add propagation

Frozen: imports nothing of memory_sql.

Revision ID: e41f7a0b6c29
Revises: 7b12d9e4f063
Create Date: 2026-11-22 11:30:00+00:00
"""

from __future__ import annotations

import re

import sqlalchemy as sa
from alembic import op

revision = "e41f7a0b6c29"
down_revision = "7b12d9e4f063"
branch_labels = None
depends_on = None

# What was made so far is judged only once it is in a text again: nobody has classified it (categories is null).
BACKFILL = "UPDATE memory.scopes SET propagated_version = version WHERE version > 0"

FUNCTIONS_DROPPED = (
    "detach(bigint, bigint[], integer[])",
    "derived(bigint, bigint[], integer[], bigint[])",
    "alike(bigint, bigint, integer, text[], bigint[], integer)",
    "peers(bigint, bigint, bigint, integer)",
    "shareable(bigint, bigint, text[])",
    "people_behind(bigint, bigint[], integer[], real)",
    "trust(bigint, bigint, integer)",
    "propagation_targets(bigint, bigint)",
    "members_of(bigint, bigint)",
    "person(bigint, text)",
)
SCOPE_COLUMNS = (
    "propagate_at",
    "propagated_at",
    "propagated_version",
    "propagation_failures",
    "propagation_errors",
)

PERSON = """
-- memory.person(agent_key, user): the id of the person behind a user's id: the one that it stands for at the end of the line
-- of aliases, else itself. One value; the way back from memory.user_ids.
CREATE OR REPLACE FUNCTION memory.person(p_agent bigint, p_user text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    WITH RECURSIVE line (user_id, step) AS (
        SELECT p_user, 0
        UNION ALL
        SELECT a.into_user_id, l.step + 1
        FROM line l
        JOIN memory.user_aliases a ON a.agent_key = p_agent AND a.user_id = l.user_id AND a.ended_at IS NULL
        WHERE l.step < 100  -- a circle, which nothing lets come about, would end here
    )
    SELECT l.user_id FROM line l ORDER BY l.step DESC LIMIT 1
$$;

COMMENT ON FUNCTION memory.person(bigint, text) IS 'The id of the person for whom a user''s id stands.';

-- memory.members_of(agent_key, scope): the persons who belong to a group now. One row per person, whatever ids they go by.
CREATE OR REPLACE FUNCTION memory.members_of(p_agent bigint, p_scope bigint) RETURNS TABLE (person text)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT DISTINCT memory.person(p_agent, m.user_id)
    FROM memory.members m
    WHERE m.agent_key = p_agent AND m.scope_id = p_scope AND m.left_at IS NULL
$$;

COMMENT ON FUNCTION memory.members_of(bigint, bigint) IS 'The persons who belong to a group now; one row per person.';
"""

PROPAGATION_TARGETS = """
-- memory.propagation_targets(agent_key, scope): where what is known in a scope may go, one level up and nowhere else. One row
-- per scope: of an individual scope the groups to which its user belongs now, of a group the collective scope (its id is null
-- while there is none). A group of one neither takes nor gives: what it knows is that one person's.
CREATE OR REPLACE FUNCTION memory.propagation_targets(p_agent bigint, p_scope bigint)
RETURNS TABLE (scope_id bigint, kind text, owner text, display_name text)
LANGUAGE sql STABLE
AS $$
    SELECT g.scope_id, g.kind, g.owner, g.display_name
    FROM memory.scopes s
    CROSS JOIN LATERAL memory.user_ids(p_agent, memory.person(p_agent, substr(s.owner, 3))) i
    JOIN memory.members m ON m.agent_key = p_agent AND m.user_id = i.user_id AND m.left_at IS NULL
    JOIN memory.scopes g ON g.agent_key = p_agent AND g.scope_id = m.scope_id AND g.kind = 'group' AND g.name = ''
    WHERE s.agent_key = p_agent AND s.scope_id = p_scope AND s.kind = 'individual' AND s.is_active AND g.is_active
      AND (SELECT count(*) FROM memory.members_of(p_agent, g.scope_id)) >= 2
    UNION
    SELECT c.scope_id, 'collective', 'c', c.display_name
    FROM memory.scopes s
    LEFT JOIN memory.scopes c ON c.agent_key = p_agent AND c.owner = 'c' AND c.name = ''
    WHERE s.agent_key = p_agent AND s.scope_id = p_scope AND s.kind = 'group' AND s.name = '' AND s.is_active
      AND c.is_active IS NOT FALSE
      AND (SELECT count(*) FROM memory.members_of(p_agent, s.scope_id)) >= 2
$$;

COMMENT ON FUNCTION memory.propagation_targets(bigint, bigint) IS
    'The scopes one level up to which a scope''s observations may be propagated; one row per scope.';
"""

TRUST = """
-- memory.trust(agent_key, scope, seq): how far an observation may be believed, by who said it and not by what it says: 3 the
-- host stated it, 2 a user said it, 1 the assistant did, 0 a tool did, or it was imported and nobody has confirmed it since.
-- One value: the least of what it is made of, so that nothing gains trust on its way up. Null where it isn't there.
CREATE OR REPLACE FUNCTION memory.trust(p_agent bigint, p_scope bigint, p_seq integer) RETURNS integer
LANGUAGE sql STABLE
AS $$
    WITH RECURSIVE line (scope_id, seq) AS (
        SELECT p_scope, p_seq
        UNION
        SELECT k.source_scope_id, k.source_seq
        FROM line n
        JOIN memory.lineage k ON k.agent_key = p_agent AND k.scope_id = n.scope_id AND k.seq = n.seq
    )
    SELECT min(
        CASE o.source_kind
            WHEN 'propagation' THEN CASE
                WHEN EXISTS (
                    SELECT FROM memory.lineage k WHERE k.agent_key = p_agent AND k.scope_id = n.scope_id AND k.seq = n.seq
                ) THEN 3  -- these are in the line
                ELSE 2  -- somebody has said so there
            END
            WHEN 'observe' THEN CASE WHEN cardinality(o.related_users) > 0 THEN 2 ELSE 3 END
            WHEN 'formation' THEN coalesce(
                (
                    SELECT min(CASE m.role WHEN 'user' THEN 2 WHEN 'assistant' THEN 1 ELSE 0 END)
                    FROM memory.messages m
                    WHERE m.agent_key = p_agent AND m.session_id = o.session_id AND m.message_id = ANY (o.message_ids)
                ),
                0
            )
            ELSE CASE WHEN t.verification = 'confirmed' THEN 2 ELSE 0 END
        END
    )
    FROM line n
    JOIN memory.observations o ON o.agent_key = p_agent AND o.scope_id = n.scope_id AND o.seq = n.seq
    LEFT JOIN memory.observation_states t ON t.agent_key = p_agent AND t.scope_id = n.scope_id AND t.seq = n.seq
$$;

COMMENT ON FUNCTION memory.trust(bigint, bigint, integer) IS
    'How far an observation may be believed: 3 host, 2 user, 1 assistant, 0 tool or import; the least of its sources.';
"""

PEOPLE_BEHIND = """
-- memory.people_behind(agent_key, scope_ids, seqs, new_days): the persons on whose word these observations rest, by their own
-- evidence and that of all they were made of. One row per observation (scope_ids[i], seqs[i]) and person. `established`: they
-- had been known for `new_days` days when they said it, once at least; where the agent itself wasn't that old then, everybody
-- is. The host's own word is nobody's, and what was set aside (quarantined) stands behind nothing.
CREATE OR REPLACE FUNCTION memory.people_behind(p_agent bigint, p_scope_ids bigint[], p_seqs integer[], p_new_days real)
RETURNS TABLE (scope_id bigint, seq integer, person text, established boolean)
LANGUAGE sql STABLE
AS $$
    WITH RECURSIVE line (scope_id, seq, source_scope_id, source_seq) AS (
        SELECT k.scope_id, k.seq, k.scope_id, k.seq
        FROM unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
        UNION
        SELECT n.scope_id, n.seq, l.source_scope_id, l.source_seq
        FROM line n
        JOIN memory.lineage l
            ON l.agent_key = p_agent AND l.scope_id = n.source_scope_id AND l.seq = n.source_seq
        WHERE NOT EXISTS (
            SELECT
            FROM memory.observation_states t
            WHERE t.agent_key = p_agent AND t.scope_id = l.source_scope_id AND t.seq = l.source_seq
              AND t.status = 'quarantined'
        )
    ), said AS (
        SELECT DISTINCT n.scope_id, n.seq, e.user_id, e.created_at
        FROM line n
        JOIN memory.evidence e ON e.agent_key = p_agent AND e.scope_id = n.source_scope_id AND e.seq = n.source_seq
        WHERE e.user_id IS NOT NULL
    ), known AS (
        SELECT u.user_id, memory.person(p_agent, u.user_id) AS person, least(
            (
                SELECT min(s.created_at)
                FROM memory.scopes s
                WHERE s.agent_key = p_agent AND s.owner = 'u:' || u.user_id AND s.name = ''
            ),
            (SELECT min(m.joined_at) FROM memory.members m WHERE m.agent_key = p_agent AND m.user_id = u.user_id)
        ) AS since
        FROM (SELECT DISTINCT s.user_id FROM said s) u
    )
    SELECT s.scope_id, s.seq, k.person, bool_or(
        s.created_at - make_interval(secs => p_new_days * 86400) >= coalesce(k.since, s.created_at + interval '1 second')
        OR s.created_at - make_interval(secs => p_new_days * 86400) < a.created_at
    )
    FROM said s
    JOIN known k USING (user_id)
    JOIN memory.agents a ON a.agent_key = p_agent
    GROUP BY s.scope_id, s.seq, k.person
$$;

COMMENT ON FUNCTION memory.people_behind(bigint, bigint[], integer[], real) IS
    'The persons on whose word observations rest, and whether they were known by then; one row per observation and person.';
"""

SHAREABLE = """
-- memory.shareable(agent_key, scope, excluded_users): the observations of a scope that may be judged for a wider one. One row
-- per observation. This is the wall before every propagation prompt, and it lets through only what is known to be fit: active,
-- undisputed, in the scope's text, classified as nothing personal (never classified counts as personal), not sensitive, not
-- marked, said by a user or the host (memory.trust), in no session that is excluded, by nobody who is excluded.
CREATE OR REPLACE FUNCTION memory.shareable(p_agent bigint, p_scope bigint, p_excluded text[])
RETURNS TABLE (seq integer, content text, observed_at timestamptz)
LANGUAGE sql STABLE
AS $$
    SELECT o.seq, o.content, o.observed_at
    FROM memory.scopes s
    JOIN memory.observations o ON o.agent_key = s.agent_key AND o.scope_id = s.scope_id
    LEFT JOIN memory.observation_states t ON t.agent_key = o.agent_key AND t.scope_id = o.scope_id AND t.seq = o.seq
    LEFT JOIN memory.sessions c ON c.agent_key = o.agent_key AND c.session_id = o.session_id
    WHERE s.agent_key = p_agent AND s.scope_id = p_scope AND s.kind IN ('individual', 'group') AND s.is_active
      AND o.seq <= s.done_seq AND o.lane = 'absorb'
      AND t.repend IS NOT TRUE
      AND coalesce(t.status, 'active') = 'active'
      AND coalesce(t.verification, 'unverified') <> 'disputed'
      AND o.categories = '{}' AND o.sensitivity <> 'sensitive' AND NOT o.no_propagate AND NOT o.confidential
      AND c.excluded IS NOT TRUE
      AND (
          cardinality(p_excluded) = 0
          OR NOT EXISTS (
              SELECT
              FROM (
                  SELECT b.person FROM memory.people_behind(p_agent, ARRAY[p_scope], ARRAY[o.seq], 0) b
                  UNION ALL
                  SELECT memory.person(p_agent, substr(s.owner, 3)) WHERE s.kind = 'individual'
              ) behind
              WHERE behind.person IN (SELECT memory.person(p_agent, x) FROM unnest(p_excluded) x)
          )
      )
      AND memory.trust(p_agent, p_scope, o.seq) >= 2
$$;

COMMENT ON FUNCTION memory.shareable(bigint, bigint, text[]) IS
    'The observations of a scope that may be judged for a wider one; one row per observation.';
"""

PEERS = """
-- memory.peers(agent_key, scope, target, limit): beside which scopes a claim of this one is seen when it is judged for a target.
-- One row per scope. For the collective scope all groups, this one too, groups of one left out, whichever learnt something last
-- first; for a group the individual scopes of its other members.
CREATE OR REPLACE FUNCTION memory.peers(p_agent bigint, p_scope bigint, p_target bigint, p_limit integer)
RETURNS TABLE (scope_id bigint)
LANGUAGE sql STABLE
AS $$
    SELECT x.scope_id
    FROM (
        SELECT g.scope_id, g.last_activity_at
        FROM memory.scopes s
        JOIN memory.scopes g ON g.agent_key = s.agent_key AND g.kind = 'group' AND g.name = '' AND g.is_active
        WHERE s.agent_key = p_agent AND s.scope_id = p_scope AND s.kind = 'group'
          AND (SELECT count(*) FROM memory.members_of(p_agent, g.scope_id)) >= 2
        UNION ALL
        SELECT i.scope_id, i.last_activity_at
        FROM memory.scopes s
        JOIN memory.members m ON m.agent_key = s.agent_key AND m.scope_id = p_target AND m.left_at IS NULL
        JOIN memory.scopes i ON i.agent_key = s.agent_key AND i.owner = 'u:' || m.user_id AND i.name = '' AND i.is_active
        WHERE s.agent_key = p_agent AND s.scope_id = p_scope AND s.kind = 'individual' AND i.scope_id <> p_scope
    ) x
    ORDER BY x.last_activity_at DESC NULLS LAST, x.scope_id
    LIMIT p_limit
$$;

COMMENT ON FUNCTION memory.peers(bigint, bigint, bigint, integer) IS
    'The scopes whose observations are compared with those of a scope that is judged; one row per scope.';
"""

ALIKE = """
-- memory.alike(agent_key, scope, seq, excluded_users, scopes, limit): what `p_scopes` know that has words in common with an
-- observation. One row per observation, those with the most words in common first; only what may itself be judged
-- (memory.shareable). Found by the index on search_tokens. `shared`: how many of the words of the shorter text the other has
-- as well, 0 to 1; at least half.
CREATE OR REPLACE FUNCTION memory.alike(
    p_agent bigint, p_scope bigint, p_seq integer, p_excluded text[], p_scopes bigint[], p_limit integer
)
RETURNS TABLE (scope_id bigint, seq integer, content text, observed_at timestamptz)
LANGUAGE sql STABLE
SET jit = off
AS $$
    WITH told AS MATERIALIZED (
        SELECT o.search, tsvector_to_array(o.search) AS words
        FROM memory.observations o
        WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.seq = p_seq
    ), tokens AS MATERIALIZED (
        SELECT coalesce(array_agg(k.token), '{}') AS wanted
        FROM unnest(p_scopes) AS g (scope_id)
        CROSS JOIN told
        CROSS JOIN LATERAL unnest(memory.search_tokens(g.scope_id, told.search)) AS k (token)
    ), found AS MATERIALIZED (
        SELECT o.scope_id, o.seq, o.content, o.observed_at, tsvector_to_array(o.search) AS words
        FROM memory.observations o
        WHERE memory.search_tokens(o.scope_id, o.search) && (SELECT wanted FROM tokens)
    ), compared AS (
        SELECT f.scope_id, f.seq, f.content, f.observed_at, (
            SELECT count(*) FROM (SELECT unnest(f.words) INTERSECT SELECT unnest(t.words)) both_have
        )::real / greatest(least(cardinality(f.words), cardinality(t.words)), 1) AS shared
        FROM found f
        CROSS JOIN told t
        WHERE f.scope_id = ANY (p_scopes) AND (f.scope_id, f.seq) <> (p_scope, p_seq)
    )
    SELECT c.scope_id, c.seq, c.content, c.observed_at
    FROM compared c
    WHERE c.shared >= 0.5
      AND EXISTS (SELECT FROM memory.shareable(p_agent, c.scope_id, p_excluded) h WHERE h.seq = c.seq)
    ORDER BY c.shared DESC, c.scope_id, c.seq
    LIMIT p_limit
$$;

COMMENT ON FUNCTION memory.alike(bigint, bigint, integer, text[], bigint[], integer) IS
    'What scopes know that has words in common with an observation; one row per observation.';
"""

DERIVED = """
-- memory.derived(agent_key, scope_ids, seqs, evidence_ids): what can't stay when the observations (scope_ids[i], seqs[i]) go
-- and `evidence_ids` of others. One row per observation that was made of them, over all levels, without themselves. What was
-- made of one source alone (lineage.whole) stays while another such source is left that said the same and isn't quarantined, or
-- while somebody has said so there themselves; what was merged of several goes when any of them goes or loses a word: it is
-- judged anew.
CREATE OR REPLACE FUNCTION memory.derived(
    p_agent bigint, p_scope_ids bigint[], p_seqs integer[], p_evidence_ids bigint[]
)
RETURNS TABLE (scope_id bigint, seq integer)
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_column
DECLARE
    v_touched_scope_ids bigint[];
    v_touched_seqs integer[];
    v_scope_ids bigint[] := p_scope_ids;
    v_seqs integer[] := p_seqs;
    v_more_scope_ids bigint[];
    v_more_seqs integer[];
BEGIN
    WITH RECURSIVE touched (scope_id, seq) AS (
        SELECT k.scope_id, k.seq
        FROM unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
        UNION
        SELECT e.scope_id, e.seq
        FROM memory.evidence e
        WHERE e.agent_key = p_agent AND e.evidence_id = ANY (p_evidence_ids)
        UNION
        SELECT l.scope_id, l.seq
        FROM touched t
        JOIN memory.lineage l ON l.agent_key = p_agent AND l.source_scope_id = t.scope_id AND l.source_seq = t.seq
    )
    SELECT array_agg(t.scope_id), array_agg(t.seq) INTO v_touched_scope_ids, v_touched_seqs FROM touched t;

    LOOP
        SELECT array_agg(c.scope_id), array_agg(c.seq) INTO v_more_scope_ids, v_more_seqs
        FROM (
            SELECT l.scope_id, l.seq
            FROM memory.lineage l
            WHERE l.agent_key = p_agent
              AND (l.scope_id, l.seq) IN (SELECT * FROM unnest(v_touched_scope_ids, v_touched_seqs))
              AND (l.scope_id, l.seq) NOT IN (SELECT * FROM unnest(v_scope_ids, v_seqs))
            GROUP BY l.scope_id, l.seq
            HAVING bool_or(
                NOT l.whole
                AND (l.source_scope_id, l.source_seq) IN (SELECT * FROM unnest(v_touched_scope_ids, v_touched_seqs))
            ) OR (bool_and(
                (l.source_scope_id, l.source_seq) IN (SELECT * FROM unnest(v_scope_ids, v_seqs))
                OR EXISTS (
                    SELECT
                    FROM memory.observation_states t
                    WHERE t.agent_key = p_agent AND t.scope_id = l.source_scope_id AND t.seq = l.source_seq
                      AND t.status = 'quarantined'
                )
            ) AND NOT EXISTS (
                SELECT
                FROM memory.observations o
                JOIN memory.evidence e ON e.agent_key = p_agent AND e.scope_id = o.scope_id AND e.seq = o.seq
                WHERE o.agent_key = p_agent AND o.scope_id = l.scope_id AND o.seq = l.seq AND o.source_kind = 'propagation'
                  AND (e.user_id IS NOT NULL OR e.session_id IS NULL AND e.run_id IS NULL)  -- a person's word, or the host's
                  AND e.evidence_id <> ALL (p_evidence_ids)
            ))
        ) c;
        EXIT WHEN v_more_scope_ids IS NULL;
        v_scope_ids := v_scope_ids || v_more_scope_ids;
        v_seqs := v_seqs || v_more_seqs;
    END LOOP;

    RETURN QUERY
    SELECT k.scope_id, k.seq
    FROM unnest(v_scope_ids, v_seqs) AS k (scope_id, seq)
    WHERE (k.scope_id, k.seq) NOT IN (SELECT * FROM unnest(p_scope_ids, p_seqs));
END
$$;

COMMENT ON FUNCTION memory.derived(bigint, bigint[], integer[], bigint[]) IS
    'What was made of observations that go or lose evidence, and can''t stay; one row per observation.';
"""

DETACH = """
-- memory.detach(agent_key, scope_ids, seqs): the observations (scope_ids[i], seqs[i]) are no sources any more: what stays of what
-- was made of them stays for the sake of its others, and they themselves aren't judged anew. Nothing comes back. Belongs after
-- memory.derived and before memory.erase. Runs as its owner, as memory.erase does: the application may not delete.
CREATE OR REPLACE FUNCTION memory.detach(p_agent bigint, p_scope_ids bigint[], p_seqs integer[]) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
AS $$
DECLARE
    v_scope_ids bigint[];
    v_seqs integer[];
BEGIN
    PERFORM FROM memory.agents a WHERE a.agent_key = p_agent FOR KEY SHARE;  -- which a user may not
    IF NOT FOUND THEN  -- behind walls, where nobody has named the principal: better an error than nothing detached
        RAISE EXCEPTION 'this transaction does not work for agent %', p_agent USING ERRCODE = 'insufficient_privilege';
    END IF;

    WITH gone AS (
        DELETE FROM memory.lineage l
        USING unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
        WHERE l.agent_key = p_agent AND l.source_scope_id = k.scope_id AND l.source_seq = k.seq
        RETURNING l.scope_id, l.seq
    ) SELECT array_agg(g.scope_id), array_agg(g.seq) INTO v_scope_ids, v_seqs FROM gone g;

    -- What is left of what was made of it stands on what somebody has said there, where no source is left.
    DELETE FROM memory.evidence e
    USING memory.observations o
    WHERE o.agent_key = p_agent AND o.source_kind = 'propagation' AND (o.scope_id, o.seq) IN (SELECT * FROM unnest(v_scope_ids, v_seqs))
      AND e.agent_key = p_agent AND e.scope_id = o.scope_id AND e.seq = o.seq
      AND e.run_id IS NOT NULL AND e.user_id IS NULL AND e.session_id IS NULL
      AND NOT EXISTS (
          SELECT FROM memory.lineage l WHERE l.agent_key = p_agent AND l.scope_id = o.scope_id AND l.seq = o.seq
      );

    UPDATE memory.judged j
    SET outcome = 'refused', reason = 'taken_out', seq = NULL
    FROM unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
    WHERE j.agent_key = p_agent AND j.source_scope_id = k.scope_id AND j.source_seq = k.seq AND j.outcome = 'propagated';
END
$$;

REVOKE EXECUTE ON FUNCTION memory.detach(bigint, bigint[], integer[]) FROM PUBLIC;

COMMENT ON FUNCTION memory.detach(bigint, bigint[], integer[]) IS
    'Takes observations out of the sources of what stays.';
"""

HELD = """
-- memory.held_observations(agent_key): the observations that an open hold keeps. One row per observation. A hold on a user
-- covers the ids that stand for them: what lies in their own scopes, and what they said. What something held was made of is held
-- with it: without that nobody could say where it comes from, nor find it when the hold has ended.
CREATE OR REPLACE FUNCTION memory.held_observations(p_agent bigint) RETURNS TABLE (scope_id bigint, seq integer)
LANGUAGE sql STABLE
AS $$
    WITH RECURSIVE line (scope_id, seq) AS (
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
        UNION
        SELECT k.source_scope_id, k.source_seq
        FROM line n
        JOIN memory.lineage k ON k.agent_key = p_agent AND k.scope_id = n.scope_id AND k.seq = n.seq
    )
    SELECT n.scope_id, n.seq FROM line n
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

HELD_BEFORE = """
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
-- what that observation comes from, if they may see it, and what it was made of in scopes that they may see. `before…` is the last one of the page before. It runs as its owner
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
              WITH RECURSIVE seen AS MATERIALIZED (
                  SELECT v.agent_key, v.scope_id FROM memory.visible_scopes(p_agent, p_user) v
              ), line (agent_key, scope_id, seq) AS (
                  SELECT v.agent_key, v.scope_id, p_seq FROM seen v WHERE v.scope_id = p_scope
                  UNION
                  SELECT k.agent_key, k.source_scope_id, k.source_seq
                  FROM line n
                  JOIN memory.lineage k ON k.agent_key = n.agent_key AND k.scope_id = n.scope_id AND k.seq = n.seq
                  JOIN seen v ON v.agent_key = k.agent_key AND v.scope_id = k.source_scope_id
              )
              SELECT e.session_id, e.number
              FROM line n
              JOIN memory.evidence e ON e.agent_key = n.agent_key AND e.scope_id = n.scope_id AND e.seq = n.seq
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

READ_MESSAGES_BEFORE = """
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

FORGET_CLOSURE = """
-- memory.forget_closure(agent_key, users, sessions, scopes, scope_ids, seqs, session_ids, numbers): all that goes when
-- these are forgotten. One row of arrays; what stands at the same place in `scope_ids` and `seqs` is one observation, in `session_ids` and
-- `numbers` one message. Reads only.
-- Begins with what is asked for: all observations of `scopes`, the observations (scope_ids[i], seqs[i]), all messages of
-- `sessions`, the messages (session_ids[i], numbers[i]), and what `users` said (with the agent's answers to it). Then,
-- until nothing is added:
--   an observation behind which no other person's or the host's word is left. The agent's own doesn't count, nor does,
--   where one of the messages goes that it was made of, another of these: its text holds both;
--   what was made of an observation that goes, or loses somebody's word, and can't stay without it (memory.derived; never
--   the other way round);
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
            SELECT d.scope_id, d.seq
            FROM memory.derived(p_agent, scope_ids, seqs, evidence_ids) d
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

ERASE = """
-- memory.erase(agent_key, scope_ids, seqs, session_ids, numbers, evidence_ids, scopes, users, at): takes out of the
-- tables what `memory.forget_closure` told, and says how many rows of each kind. The only place that deletes. Belongs at
-- the end of a forgetting: the caller holds the locks on the sessions and scopes concerned and has rewound their texts.
-- Observations, their states, evidence and lineage, what was judged of them, and the tainted versions go. Of messages the key stays, without a
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
    v_made_scope_ids bigint[];
    v_made_seqs integer[];
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

    -- What was decided on goes with its source. Where a source stays and what was made of it goes, it isn't made again, unless
    -- another source is the cause: then it is judged anew without that one. So is what wasn't needed while somebody else's words
    -- stood there, when that person is forgotten.
    WITH changed AS (
        UPDATE memory.judged j
        SET outcome = CASE WHEN c.lost_a_source OR j.reason = 'known' AND p_users <> '{}' THEN 'waiting' ELSE 'refused' END,
            reason = CASE WHEN c.lost_a_source OR j.reason = 'known' AND p_users <> '{}' THEN 'lost_a_source' ELSE 'taken_out' END,
            seq = NULL
        FROM (
            SELECT k.scope_id, k.seq, EXISTS (
                SELECT
                FROM memory.lineage l
                WHERE l.agent_key = p_agent AND l.scope_id = k.scope_id AND l.seq = k.seq
                  AND (
                      (l.source_scope_id, l.source_seq) IN (SELECT * FROM unnest(p_scope_ids, p_seqs))
                      OR EXISTS (
                          SELECT
                          FROM memory.evidence e
                          WHERE e.agent_key = p_agent AND e.scope_id = l.source_scope_id AND e.seq = l.source_seq
                            AND e.evidence_id = ANY (p_evidence_ids)
                      )
                  )
            ) AS lost_a_source
            FROM unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
        ) c
        WHERE j.agent_key = p_agent AND j.target_scope_id = c.scope_id AND j.seq = c.seq
        RETURNING j.source_scope_id, j.outcome
    )
    UPDATE memory.scopes s  -- a run that is under way has counted what goes
    SET propagate_at = coalesce(s.propagate_at, p_at),
        fence = s.fence + (s.lease_until IS NOT NULL)::integer,
        lease_until = NULL
    WHERE s.agent_key = p_agent
      AND s.scope_id IN (SELECT c.source_scope_id FROM changed c WHERE c.outcome = 'waiting');

    RETURN QUERY
    WITH gone AS (
        DELETE FROM memory.judged j
        USING unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
        WHERE j.agent_key = p_agent AND (j.source_scope_id, j.source_seq) = (k.scope_id, k.seq)
        RETURNING 1
    ) SELECT 'judged', count(*) FROM gone;

    SELECT coalesce(array_agg(l.scope_id), '{}'), coalesce(array_agg(l.seq), '{}')
    INTO v_made_scope_ids, v_made_seqs
    FROM memory.lineage l
    JOIN unnest(p_scope_ids, p_seqs) AS k (scope_id, seq) ON (l.source_scope_id, l.source_seq) = (k.scope_id, k.seq)
    WHERE l.agent_key = p_agent;

    RETURN QUERY
    WITH gone AS (
        DELETE FROM memory.lineage l
        USING unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
        WHERE l.agent_key = p_agent
          AND ((l.scope_id, l.seq) = (k.scope_id, k.seq) OR (l.source_scope_id, l.source_seq) = (k.scope_id, k.seq))
        RETURNING l.seq
    ) SELECT 'lineage', count(*) FROM gone;

    -- What is left of what was made of it stands on what somebody has said there, where no source is left.
    DELETE FROM memory.evidence e
    USING memory.observations o
    WHERE o.agent_key = p_agent AND o.source_kind = 'propagation' AND (o.scope_id, o.seq) IN (SELECT * FROM unnest(v_made_scope_ids, v_made_seqs))
      AND e.agent_key = p_agent AND e.scope_id = o.scope_id AND e.seq = o.seq
      AND e.run_id IS NOT NULL AND e.user_id IS NULL AND e.session_id IS NULL
      AND NOT EXISTS (
          SELECT FROM memory.lineage l WHERE l.agent_key = p_agent AND l.scope_id = o.scope_id AND l.seq = o.seq
      );

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
        'judged', 'lineage', 'evidence', 'observation_states', 'observations', 'consolidations', 'members', 'user_aliases',
        'runs', 'messages', 'sessions', 'scopes', 'holds', 'retrievals'
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

ERASE_AGENT_BEFORE = """
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
        'runs', 'messages', 'sessions', 'scopes', 'holds', 'retrievals'
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

V_PROPAGATION_FLOW = """
-- memory.v_propagation_flow: what goes upwards, and what doesn't and why. One row per agent, day (UTC) on which it was decided,
-- kind of scope from which and to which, outcome and reason. An observation counts once for each wider scope for which it
-- was judged, with what holds now: what waits and is judged again moves to the later day. observations: how many; stored: how
-- many observations of the wider scopes they have become, of which several may be one; people: whose they are, 0 of groups.
CREATE OR REPLACE VIEW memory.v_propagation_flow WITH (security_invoker = true) AS
SELECT
    a.agent_id,
    (j.judged_at AT TIME ZONE 'UTC')::date AS day,
    s.kind AS from_kind,
    t.kind AS to_kind,
    j.outcome,
    j.reason,
    count(*) AS observations,
    count(DISTINCT (j.target_scope_id, j.seq)) FILTER (WHERE j.seq IS NOT NULL) AS stored,
    count(DISTINCT s.owner) FILTER (WHERE s.kind = 'individual') AS people
FROM memory.judged j
JOIN memory.agents a ON a.agent_key = j.agent_key
JOIN memory.scopes s ON s.agent_key = j.agent_key AND s.scope_id = j.source_scope_id
JOIN memory.scopes t ON t.agent_key = j.agent_key AND t.scope_id = j.target_scope_id
GROUP BY 1, 2, 3, 4, 5, 6;

COMMENT ON VIEW memory.v_propagation_flow IS
    'One row per agent, day (UTC), kinds of scopes, outcome and reason: observations judged, stored, and of how many people.';
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

ALTER TABLE memory.judged ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.judged USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.judged FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND source_scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
    AND target_scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
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


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '3s'")
    add_scope_columns()
    op.execute(BACKFILL)
    op.add_column(
        "lineage",
        sa.Column(
            "whole",
            sa.Boolean(),
            server_default=sa.text("true"),
            nullable=False,
            comment="True: it was made of this one alone, and stays as long as one such is left; "
            "false: merged of several.",
        ),
        schema="memory",
    )
    kinds_of_runs("formation", "consolidation", "propagation")
    comment_runs("formation (of a session), consolidation or propagation (of a scope).", "The scope, for the others.")
    create_judged()
    run(PERSON)
    run(PROPAGATION_TARGETS)
    run(TRUST)
    run(PEOPLE_BEHIND)
    run(SHAREABLE)
    run(PEERS)
    run(ALIKE)
    run(DERIVED)
    run(HELD)
    run(READ_MESSAGES)
    run(FORGET_CLOSURE)
    run(DETACH)
    run(ERASE)
    run(ERASE_AGENT)
    run(V_PROPAGATION_FLOW)
    for statement in statements_of(POLICIES):
        if "ON memory.judged " in statement or "TABLE memory.judged " in statement:  # the others stand
            op.execute(statement)


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '3s'")
    run(ERASE_AGENT_BEFORE)
    run(ERASE_BEFORE)
    run(FORGET_CLOSURE_BEFORE)
    run(HELD_BEFORE)
    run(READ_MESSAGES_BEFORE)
    op.execute("DROP VIEW memory.v_propagation_flow")
    for signature in FUNCTIONS_DROPPED:
        op.execute(f"DROP FUNCTION memory.{signature}")
    op.drop_table("judged", schema="memory")
    # What was made stays, with its lineage; its runs were of a scope, and there is no other kind of these any more.
    op.execute("UPDATE memory.runs SET kind = 'consolidation' WHERE kind = 'propagation'")
    kinds_of_runs("formation", "consolidation")
    comment_runs("formation (of a session) or consolidation (of a scope).", "The scope, for a consolidation.")
    op.drop_column("lineage", "whole", schema="memory")
    op.drop_index("scopes_propagate_at_idx", table_name="scopes", schema="memory")
    for name in SCOPE_COLUMNS:
        op.drop_column("scopes", name, schema="memory")


def add_scope_columns() -> None:
    for column in (
        sa.Column(
            "propagate_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="From when what its text has taken in should be judged for wider scopes; null: nothing to do.",
        ),
        sa.Column("propagated_at", sa.DateTime(timezone=True), nullable=True, comment="When that was last done."),
        sa.Column(
            "propagated_version",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Version of the text: all that it had taken in has been judged.",
        ),
        sa.Column(
            "propagation_failures",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Times in a row that this gave no answer or one that could not be used.",
        ),
        sa.Column(
            "propagation_errors",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Of these, answers that could not be used: each halves what the next one is asked about.",
        ),
    ):
        op.add_column("scopes", column, schema="memory")
    op.create_index(
        "scopes_propagate_at_idx",
        "scopes",
        ["propagate_at"],
        schema="memory",
        postgresql_where=sa.text("propagate_at IS NOT NULL"),
    )


def kinds_of_runs(*kinds: str) -> None:
    op.drop_constraint(op.f("runs_kind_check"), "runs", schema="memory", type_="check")
    listed = ", ".join(repr(kind) for kind in kinds)
    op.create_check_constraint(op.f("runs_kind_check"), "runs", f"kind IN ({listed})", schema="memory")


def comment_runs(kind: str, scope_id: str) -> None:
    op.execute(f"COMMENT ON COLUMN memory.runs.kind IS '{kind}'")
    op.execute(f"COMMENT ON COLUMN memory.runs.scope_id IS '{scope_id}'")


def create_judged() -> None:
    op.create_table(
        "judged",
        sa.Column("agent_key", sa.BigInteger(), nullable=False, comment="The agent."),
        sa.Column(
            "source_scope_id",
            sa.BigInteger(),
            nullable=False,
            comment="The scope of the observation that was judged.",
        ),
        sa.Column("source_seq", sa.Integer(), nullable=False, comment="The observation that was judged."),
        sa.Column("target_scope_id", sa.BigInteger(), nullable=False, comment="The scope for which it was judged."),
        sa.Column(
            "outcome",
            sa.Text(),
            nullable=False,
            comment="propagated, refused, waiting (too few say so yet), held (for a person to look at) "
            "or released (by one).",
        ),
        sa.Column("reason", sa.Text(), nullable=False, comment="Why, in one word."),
        sa.Column(
            "seq",
            sa.Integer(),
            nullable=True,
            comment="The observation of the target that says it now; null: none.",
        ),
        sa.Column(
            "run_id",
            sa.BigInteger(),
            nullable=True,
            comment="The run in which it was judged; null: a person did.",
        ),
        sa.Column(
            "judged_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When.",
        ),
        sa.CheckConstraint(
            "outcome IN ('propagated', 'refused', 'waiting', 'held', 'released')",
            name=op.f("judged_outcome_check"),
        ),
        sa.CheckConstraint("seq IS NULL OR outcome = 'propagated'", name=op.f("judged_seq_check")),
        sa.CheckConstraint("source_scope_id <> target_scope_id", name=op.f("judged_target_scope_id_check")),
        sa.ForeignKeyConstraint(
            ["agent_key", "run_id"],
            ["memory.runs.agent_key", "memory.runs.run_id"],
            name=op.f("judged_agent_key_run_id_fkey"),
        ),
        sa.ForeignKeyConstraint(
            ["agent_key", "source_scope_id", "source_seq"],
            [
                "memory.observations.agent_key",
                "memory.observations.scope_id",
                "memory.observations.seq",
            ],
            name=op.f("judged_agent_key_source_scope_id_source_seq_fkey"),
        ),
        sa.ForeignKeyConstraint(
            ["agent_key", "target_scope_id"],
            ["memory.scopes.agent_key", "memory.scopes.scope_id"],
            name=op.f("judged_agent_key_target_scope_id_fkey"),
        ),
        sa.PrimaryKeyConstraint(
            "agent_key", "source_scope_id", "source_seq", "target_scope_id", name=op.f("judged_pkey")
        ),
        schema="memory",
        comment="One row per observation and wider scope for which it was judged, once; it goes with its source.",
    )
    op.create_index(
        "judged_seq_idx",
        "judged",
        ["agent_key", "target_scope_id", "seq"],
        schema="memory",
        postgresql_where=sa.text("seq IS NOT NULL"),
    )
    op.create_index(
        "judged_held_idx",
        "judged",
        ["agent_key", "source_scope_id", "source_seq"],
        schema="memory",
        postgresql_where=sa.text("outcome = 'held'"),
    )


def run(script: str) -> None:
    for statement in statements_of(script):
        op.execute(statement)


def statements_of(script: str) -> list[str]:
    """asyncpg prepares one statement at a time; each begins at the start of a line, bodies are indented."""
    return re.split(r";\s*\n(?=(?:CREATE|COMMENT|REVOKE|ALTER|--) ?)", script.strip().removesuffix(";"))
