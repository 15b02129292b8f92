-- memory.erasable(agent_key, scope_ids, seqs, conversation_ids, numbers, evidence_ids, scopes, users): how many rows of each kind
-- memory.erase would count of the same. One row per kind. Reads only.
CREATE OR REPLACE FUNCTION memory.erasable(
    p_agent bigint, p_scope_ids bigint[], p_seqs integer[], p_conversation_ids text[], p_numbers bigint[],
    p_evidence_ids bigint[], p_scopes bigint[], p_users text[]
) RETURNS TABLE (what text, counted bigint)
LANGUAGE sql STABLE
AS $$
    WITH gone AS MATERIALIZED (
        SELECT k.scope_id, k.seq FROM unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
    ), touched AS MATERIALIZED (
        SELECT g.scope_id FROM gone g UNION SELECT unnest(p_scopes)
    )
    SELECT 'observations', (
        SELECT count(*) FROM gone g JOIN memory.observations o ON o.agent_key = p_agent AND (o.scope_id, o.seq) = (g.scope_id, g.seq)
    )
    UNION ALL
    SELECT 'evidence', (
        SELECT count(*)
        FROM unnest(p_evidence_ids) AS k (evidence_id)
        JOIN memory.evidence e ON e.agent_key = p_agent AND e.evidence_id = k.evidence_id
    )
    UNION ALL
    SELECT 'messages', (
        SELECT count(*)
        FROM unnest(p_conversation_ids, p_numbers) AS k (conversation_id, number)
        JOIN memory.messages m ON m.agent_key = p_agent AND (m.conversation_id, m.number) = (k.conversation_id, k.number)
    )
    UNION ALL
    SELECT 'consolidations', (SELECT count(*) FROM memory.tainted_versions(p_agent, p_scopes, p_scope_ids, p_seqs))
    UNION ALL
    SELECT 'judged', (
        SELECT count(*)
        FROM gone g
        JOIN memory.judged j ON j.agent_key = p_agent AND (j.source_scope_id, j.source_seq) = (g.scope_id, g.seq)
    )
    UNION ALL
    SELECT 'lineage', (
        SELECT count(*)
        FROM (
            SELECT l.*
            FROM gone g
            JOIN memory.lineage l ON l.agent_key = p_agent AND (l.scope_id, l.seq) = (g.scope_id, g.seq)
            UNION
            SELECT l.*
            FROM gone g
            JOIN memory.lineage l ON l.agent_key = p_agent AND (l.source_scope_id, l.source_seq) = (g.scope_id, g.seq)
        ) l
    )
    UNION ALL
    SELECT 'runs', (
        SELECT count(*)
        FROM memory.runs r
        WHERE r.agent_key = p_agent AND (r.answer IS NOT NULL OR r.seen <> '{}' OR r.finished_at IS NULL) AND (
            r.conversation_id = ANY (p_conversation_ids) OR r.scope_id IN (SELECT t.scope_id FROM touched t)
            OR EXISTS (
                SELECT FROM jsonb_object_keys(r.seen -> 'scopes') AS s WHERE s::bigint IN (SELECT t.scope_id FROM touched t)
            )
        )
    )
    UNION ALL
    SELECT 'members', (SELECT count(*) FROM memory.members m WHERE m.agent_key = p_agent AND m.user_id = ANY (p_users))
$$;

COMMENT ON FUNCTION memory.erasable(bigint, bigint[], integer[], text[], bigint[], bigint[], bigint[], text[]) IS
    'How many rows of each kind memory.erase would count; one row per kind.';
