"""How the rows of an import are staged, and the statements that store them, in order."""

from __future__ import annotations

from collections.abc import Mapping

STAGED = {
    "place": "bigint",
    "scope_id": "bigint",
    "legacy_ref": "text",
    "of_ref": "text",
    "content": "text",
    "observed_at": "timestamptz",
    "given_at": "timestamptz",
    "conversation_id": "text",
    "message_ids": "text[]",
    "users": "text[]",
    "lane": "text",
    "state": "text",
    "verification": "text",
    "sensitivity": "text",
    "categories": "text[]",
    "metadata": "text",
    "digest": "bytea",
    "search_extra": "text",
    "dates": "text",
    "source_hash": "bytea",
    "stored_hash": "bytea",
    "ref_hash": "bytea",
    "also": "text[]",
    "also_hashes": "bytea[]",
    "seq": "integer",
}
"""The columns of a staged row. `of_ref`: the other document whose row says the same; `also`: sentences that it says.

`place`: 1, 2, 3 … in the order in which they come. `seq` is null if the scope had anything before, or if it is that of
another row; empty lists are null.
"""

TEXTS = {
    "scope_id": "bigint",
    "content": "text",
    "words": "integer",
    "is_told": "boolean",
    "written_at": "timestamptz",
    "absorbed": "integer",
    "refs": "text[]",
    "ref_hashes": "bytea[]",
    "source_hash": "bytea",
    "stored_hash": "bytea",
}
"""The columns of a staged text. `is_told` False: it is recorded as imported, but not stored. `refs`: its documents."""


def _temporary(name: str, columns: Mapping[str, str], at_commit: str) -> str:
    listed = ", ".join(f"{column} {kind}" for column, kind in columns.items())
    return f"CREATE TEMPORARY TABLE {name} ({listed}) ON COMMIT {at_commit}"


def _tables(at_commit: str) -> str:
    return ";".join(_temporary(*one, at_commit) for one in (("import_rows", STAGED), ("import_texts", TEXTS)))


STAGE, STAGE_ONCE = _tables("DELETE ROWS"), _tables("DROP")
"""Tables for the connection, emptied at each commit; or for one transaction."""
IS_STAGED = "to_regclass('pg_temp.import_rows') IS NOT NULL"
EMPTY = "TRUNCATE import_rows, import_texts"
ANALYZE = "ANALYZE import_rows (place, scope_id, seq, legacy_ref, of_ref)"

# In scopes that already had observations. A pending one there that says the same is that row; `of_ref` is then empty.
# So is one that is set aside: as elsewhere, what says the same doesn't come back (but see memory.save_observations).
WAITING = """
    UPDATE import_rows r SET of_ref = '', seq = w.seq
    FROM (
        SELECT o.scope_id, o.lane, o.content_hash, max(o.seq) AS seq, max(o.observed_at) AS observed_at
        FROM memory.scopes s
        CROSS JOIN LATERAL (
            SELECT w.* FROM memory.observations w
            WHERE w.agent_key = s.agent_key AND w.scope_id = s.scope_id AND w.seq > s.done_seq AND w.standing = 'active'
            UNION ALL
            SELECT w.* FROM memory.observations w
            WHERE w.agent_key = s.agent_key AND w.scope_id = s.scope_id AND w.seq <= s.done_seq AND w.standing = 'active'
              AND w.lane = 'buffer'
        ) o
        WHERE s.agent_key = :agent_key AND s.scope_id = ANY (:scope_ids)
        GROUP BY 1, 2, 3
        UNION ALL
        SELECT o.scope_id, NULL, o.content_hash, max(o.seq), NULL
        FROM memory.observations o
        WHERE o.agent_key = :agent_key AND o.scope_id = ANY (:scope_ids) AND o.standing IN ('quarantined', 'given_up')
        GROUP BY 1, 3
    ) w
    WHERE r.of_ref IS NULL AND r.scope_id = w.scope_id AND w.content_hash = memory.content_hash(r.scope_id, r.digest)
      AND (w.lane IS NULL OR r.lane = w.lane AND r.observed_at <= w.observed_at)
    RETURNING r.legacy_ref
"""
NUMBER = """
    UPDATE import_rows r SET seq = s.last_seq + n.n
    FROM (
        SELECT place, row_number() OVER (PARTITION BY scope_id ORDER BY place) AS n
        FROM import_rows WHERE of_ref IS NULL AND seq IS NULL
    ) n, memory.scopes s
    WHERE r.place = n.place AND s.agent_key = :agent_key AND s.scope_id = r.scope_id
"""
REPEATED = """
    UPDATE import_rows r SET seq = coalesce(
        (SELECT o.seq FROM import_rows o WHERE o.scope_id = r.scope_id AND o.legacy_ref = r.of_ref AND o.seq IS NOT NULL),
        (
            SELECT i.seq FROM memory.imported i
            WHERE i.agent_key = :agent_key AND i.scope_id = r.scope_id AND i.legacy_ref = r.of_ref
        )
    )
    WHERE r.of_ref <> ''
"""
# All at once, since an agent has few rows and each statement has a cost. The same holds for the hashes of texts: one at a
# time, looking up the key costs more than storing the row. What a text holds was shared in the old store as far as it should
# be, or never.
STORE = """
    WITH found AS (
        SELECT scope_id, count(*) FILTER (WHERE of_ref IS NULL) AS stored,
               count(*) FILTER (WHERE of_ref IS NOT NULL) AS known, max(seq) AS last_seq
        FROM import_rows WHERE seq IS NOT NULL GROUP BY scope_id
    ), made AS (
        INSERT INTO memory.runs (
            agent_key, kind, scope_id, from_seq, to_seq, fence, state, observations, duplicates, started_at, finished_at,
            import_id
        )
        SELECT :agent_key, 'import', f.scope_id, 0, coalesce(t.absorbed, 0), s.fence, 'succeeded', f.stored, f.known, :now,
               :now, :import_id
        FROM found f
        JOIN memory.scopes s ON s.agent_key = :agent_key AND s.scope_id = f.scope_id
        LEFT JOIN import_texts t ON t.scope_id = f.scope_id AND t.is_told
        RETURNING run_id, scope_id
    ), stored AS (
        INSERT INTO memory.observations (
            agent_key, scope_id, seq, content, observed_at, given_at, created_at, source_kind, conversation_id, message_ids,
            related_users, run_id, legacy_ref, lane, sensitivity, categories, metadata, content_hash, hash_version, language,
            search_extra, dates, standing, classified_by
        )
        SELECT :agent_key, r.scope_id, r.seq, r.content, r.observed_at, r.given_at, :now, 'import', r.conversation_id,
               coalesce(r.message_ids, '{}'), r.users, m.run_id, r.legacy_ref, r.lane, r.sensitivity,
               coalesce(r.categories, '{}'), r.metadata::jsonb,
               h.hash, :hash_version, s.language, r.search_extra, r.dates::datemultirange,
               CASE WHEN r.state IN ('archived', 'evicted') THEN r.state ELSE 'active' END,
               CASE WHEN :by_rules THEN 0 END  -- classified later: that takes longer than storing it
        FROM import_rows r
        JOIN made m USING (scope_id)
        JOIN memory.scopes s ON s.agent_key = :agent_key AND s.scope_id = m.scope_id
        JOIN memory.content_hashes(
            ARRAY(SELECT scope_id FROM import_rows ORDER BY place), ARRAY(SELECT digest FROM import_rows ORDER BY place)
        ) h USING (place)
        WHERE r.of_ref IS NULL
        ORDER BY r.place
    ), states AS (
        INSERT INTO memory.observation_states (agent_key, scope_id, seq, status, status_at, verification)
        SELECT :agent_key, r.scope_id, r.seq, CASE WHEN r.state IN ('archived', 'evicted') THEN r.state ELSE 'active' END,
               :now, r.verification
        FROM import_rows r
        WHERE r.of_ref IS NULL AND (r.state IN ('archived', 'evicted') OR r.verification <> 'unverified')
    ), said AS (
        INSERT INTO memory.evidence (agent_key, scope_id, seq, user_id, run_id, created_at)
        SELECT :agent_key, r.scope_id, r.seq, u.user_id, m.run_id, :now
        FROM import_rows r
        JOIN made m USING (scope_id)
        LEFT JOIN LATERAL unnest(r.users) AS u (user_id) ON true
        WHERE r.of_ref IS NULL AND NOT (:links AND r.message_ids IS NOT NULL)
    ), noted AS (
        INSERT INTO memory.imported (agent_key, scope_id, legacy_ref, import_id, seq, source_hash, stored_hash, ref_hash)
        SELECT :agent_key, r.scope_id, r.legacy_ref, :import_id, r.seq, r.source_hash, r.stored_hash, r.ref_hash
        FROM import_rows r
        WHERE r.seq IS NOT NULL
        UNION ALL
        SELECT :agent_key, r.scope_id, a.ref, :import_id, r.seq, r.source_hash, r.stored_hash, a.ref_hash
        FROM import_rows r
        CROSS JOIN LATERAL unnest(r.also, r.also_hashes) AS a (ref, ref_hash)
        WHERE r.seq IS NOT NULL AND r.also IS NOT NULL
        UNION ALL
        SELECT :agent_key, t.scope_id, u.ref, :import_id, NULL, t.source_hash, t.stored_hash, u.ref_hash
        FROM import_texts t
        CROSS JOIN LATERAL unnest(t.refs, t.ref_hashes) AS u (ref, ref_hash)
        ON CONFLICT DO NOTHING
    ), told AS (
        INSERT INTO memory.consolidations (
            agent_key, scope_id, version, base, from_seq, to_seq, content, words, reason, run_id, created_at
        )
        SELECT :agent_key, t.scope_id, 1, 0, 0, t.absorbed, t.content, t.words, 'import', m.run_id, :now
        FROM import_texts t
        JOIN made m USING (scope_id)
        WHERE t.is_told
    ), filled AS (
        UPDATE memory.scopes s
        SET last_seq = greatest(s.last_seq, f.last_seq),
            last_activity_at = :now,
            done_seq = CASE WHEN t.is_told THEN t.absorbed ELSE s.done_seq END,
            version = CASE WHEN t.is_told THEN 1 ELSE s.version END,
            consolidated_at = CASE WHEN t.is_told THEN least(t.written_at, :now) ELSE s.consolidated_at END,
            propagated_version = CASE WHEN t.is_told THEN 1 ELSE s.propagated_version END
        FROM found f
        LEFT JOIN import_texts t USING (scope_id)
        WHERE s.agent_key = :agent_key AND s.scope_id = f.scope_id
    )
    SELECT coalesce(sum(stored), 0)::bigint, count(*) FROM found
"""
# The messages from which it was made, if they were imported as well; then each other person once per observation, however
# many documents name them. The runs that `STORE` made are the newest of the import.
LINK = (
    """
    INSERT INTO memory.evidence (agent_key, scope_id, seq, conversation_id, number, user_id, run_id, created_at)
    SELECT DISTINCT ON (r.scope_id, r.seq, g.conversation_id, g.number)
           :agent_key, r.scope_id, r.seq, g.conversation_id, g.number, g.user_id, m.run_id, :now
    FROM import_rows r
    JOIN (
        SELECT scope_id, max(run_id) AS run_id FROM memory.runs
        WHERE agent_key = :agent_key AND import_id = :import_id AND scope_id IS NOT NULL GROUP BY scope_id
    ) m USING (scope_id)
    JOIN memory.messages g
        ON g.agent_key = :agent_key AND g.conversation_id = r.conversation_id AND g.message_id = ANY (r.message_ids)
    WHERE r.seq IS NOT NULL AND :links AND r.message_ids IS NOT NULL AND g.content IS NOT NULL
    """,
    """
    INSERT INTO memory.evidence (agent_key, scope_id, seq, user_id, run_id, created_at)
    SELECT DISTINCT :agent_key, r.scope_id, r.seq, u.user_id, m.run_id, :now
    FROM import_rows r
    JOIN (
        SELECT scope_id, max(run_id) AS run_id FROM memory.runs
        WHERE agent_key = :agent_key AND import_id = :import_id AND scope_id IS NOT NULL GROUP BY scope_id
    ) m USING (scope_id)
    LEFT JOIN LATERAL unnest(r.users) AS u (user_id) ON true
    WHERE r.seq IS NOT NULL AND (r.of_ref IS NOT NULL AND u.user_id IS NOT NULL OR :links AND r.message_ids IS NOT NULL)
      AND NOT EXISTS (
          SELECT FROM memory.evidence e
          WHERE e.agent_key = :agent_key AND e.scope_id = r.scope_id AND e.seq = r.seq
            AND (e.user_id = u.user_id OR u.user_id IS NULL)
      )
    """,
)
