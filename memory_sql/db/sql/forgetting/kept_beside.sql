-- memory.kept_beside(agent_key, scope_ids, seqs, evidence_ids): what stays of what a forgetting touches. One row per observation
-- that loses one of `evidence_ids` or was made of one of the observations (scope_ids[i], seqs[i]), and isn't one of these:
--   another    somebody else says so: `users`
--   elsewhere  nobody else, but whose words go said so elsewhere as well: `users`
--   host       the host stated it
--   source     it was made of something else that stays
--   again      it says the same as something that goes, and stands for itself again: `users`
-- `users` are the persons behind the ids, whether they say so there or in a source. What is set aside supports nothing. To be asked
-- before memory.erase.
CREATE OR REPLACE FUNCTION memory.kept_beside(
    p_agent bigint, p_scope_ids bigint[], p_seqs integer[], p_evidence_ids bigint[]
) RETURNS TABLE (scope_id bigint, seq integer, reason text, users text[])
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE gone AS MATERIALIZED (
        SELECT k.scope_id, k.seq FROM unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
    ), lost AS MATERIALIZED (
        SELECT k.evidence_id, e.scope_id, e.seq
        FROM unnest(p_evidence_ids) AS k (evidence_id)
        JOIN memory.evidence e ON e.agent_key = p_agent AND e.evidence_id = k.evidence_id
    ), line (scope_id, seq, source_scope_id, source_seq) AS (
        SELECT t.scope_id, t.seq, t.scope_id, t.seq
        FROM (
            SELECT o.scope_id, o.seq FROM lost o
            UNION
            SELECT l.scope_id, l.seq
            FROM gone g
            JOIN memory.lineage l ON l.agent_key = p_agent AND (l.source_scope_id, l.source_seq) = (g.scope_id, g.seq)
            EXCEPT
            TABLE gone
        ) t
        UNION
        SELECT n.scope_id, n.seq, l.source_scope_id, l.source_seq
        FROM line n
        JOIN memory.lineage l ON l.agent_key = p_agent AND (l.scope_id, l.seq) = (n.source_scope_id, n.source_seq)
    ), said AS MATERIALIZED (
        SELECT n.scope_id, n.seq, e.user_id, e.evidence_id IN (SELECT o.evidence_id FROM lost o) AS is_lost,
               e.user_id IS NULL AND e.conversation_id IS NULL AND e.run_id IS NULL AS is_hosts
        FROM line n
        JOIN memory.evidence e ON e.agent_key = p_agent AND (e.scope_id, e.seq) = (n.source_scope_id, n.source_seq)
        LEFT JOIN memory.observation_states t
            ON t.agent_key = p_agent AND (t.scope_id, t.seq) = (n.source_scope_id, n.source_seq)
        WHERE e.evidence_id IN (SELECT o.evidence_id FROM lost o)
           OR e.withdrawn_by IS NULL AND NOT memory.is_aside(t.status)
    ), known AS MATERIALIZED (
        SELECT u.user_id, memory.person(p_agent, u.user_id) AS person FROM (SELECT DISTINCT s.user_id FROM said s) u
    ), stays AS (
        SELECT s.scope_id, s.seq, bool_or(s.is_hosts AND NOT s.is_lost) AS is_hosts,
               coalesce(array_agg(DISTINCT k.person) FILTER (WHERE NOT s.is_lost AND k.person IS NOT NULL), '{}') AS persons,
               coalesce(array_agg(DISTINCT k.person) FILTER (WHERE s.is_lost AND k.person IS NOT NULL), '{}') AS losing
        FROM said s
        LEFT JOIN known k ON k.user_id = s.user_id
        GROUP BY s.scope_id, s.seq
    ), told AS (SELECT y.*, ARRAY(SELECT p FROM unnest(y.persons) p WHERE p <> ALL (y.losing)) AS others FROM stays y)
    SELECT y.scope_id, y.seq,
           CASE WHEN y.others <> '{}' THEN 'another' WHEN y.is_hosts THEN 'host' WHEN y.persons <> '{}' THEN 'elsewhere' ELSE 'source' END,
           CASE WHEN y.others <> '{}' THEN y.others WHEN y.is_hosts THEN '{}' ELSE y.persons END
    FROM told y
    UNION ALL
    SELECT r.scope_id, r.seq, 'again', ARRAY(
        SELECT DISTINCT memory.person(p_agent, e.user_id) FROM memory.evidence e
        WHERE e.agent_key = p_agent AND (e.scope_id, e.seq) = (r.scope_id, r.seq) AND e.user_id IS NOT NULL ORDER BY 1
    )
    FROM (
        SELECT DISTINCT l.scope_id, l.repeated_seq AS seq
        FROM gone g
        JOIN memory.evidence l ON l.agent_key = p_agent AND (l.scope_id, l.seq) = (g.scope_id, g.seq)
        WHERE l.repeated_seq IS NOT NULL AND (l.scope_id, l.repeated_seq) NOT IN (TABLE gone)
    ) r
$$;

COMMENT ON FUNCTION memory.kept_beside IS
    'What stays of what a forgetting touches, and on whose word; one row per observation.';
