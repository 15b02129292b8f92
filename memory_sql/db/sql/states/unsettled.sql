-- memory.unsettled(agent_key, scopes, seqs): the derived observations whose status doesn't match that of their sources: those in
-- these scopes, and those derived from observations in these scopes (null: all scopes). With `seqs`, which stand beside their
-- scopes, only these observations and those derived from them, so that what gave way long ago isn't read. One row per
-- observation: its status, and the one that it must get. An observation derived from one source alone (lineage.whole) is in use
-- while such a source supports it; otherwise it gets its sources' status, and if these differ, the mildest. One that somebody
-- has also stated in its own scope stays; but a correction there is set aside with the sources, since it has inherited the
-- sources of what it corrects. An observation merged from several is set aside with any of them that is quarantined (it is
-- then erased, unless a legal hold keeps it); otherwise it stays as it was said. Only observations in use change, and only
-- those that changed for this reason (observation_states.follows) are restored.
CREATE OR REPLACE FUNCTION memory.unsettled(p_agent bigint, p_scopes bigint[], p_seqs integer[] DEFAULT NULL)
RETURNS TABLE (scope_id bigint, seq integer, status text, becomes text)
LANGUAGE sql STABLE AS $$
    WITH concerned AS (  -- here and below: one look by the index for each, whatever the planner thinks of how many there are
        SELECT l.scope_id, l.seq
        FROM (
            SELECT k.scope_id, k.seq FROM unnest(p_scopes, p_seqs) k(scope_id, seq) WHERE p_seqs IS NOT NULL
            UNION ALL
            SELECT s.scope_id, s.seq FROM memory.observation_states s
            WHERE p_seqs IS NULL AND s.agent_key = p_agent AND s.scope_id = ANY (p_scopes) AND NOT memory.supports(s.status)
            UNION ALL
            SELECT s.scope_id, s.seq FROM memory.observation_states s
            WHERE p_scopes IS NULL AND s.agent_key = p_agent AND NOT memory.supports(s.status)
        ) t
        CROSS JOIN LATERAL (
            SELECT l.* FROM memory.lineage l WHERE (l.agent_key, l.source_scope_id, l.source_seq) = (p_agent, t.scope_id, t.seq) OFFSET 0
        ) l
        UNION
        SELECT k.scope_id, k.seq FROM unnest(p_scopes, p_seqs) k(scope_id, seq) WHERE p_seqs IS NOT NULL
        UNION
        SELECT l.scope_id, l.seq FROM memory.lineage l
        WHERE p_seqs IS NULL AND l.agent_key = p_agent AND l.scope_id = ANY (p_scopes) AND EXISTS (
            SELECT FROM memory.observation_states t
            WHERE (t.agent_key, t.scope_id, t.seq) = (p_agent, l.source_scope_id, l.source_seq) AND NOT memory.supports(t.status) OFFSET 0
        )
        UNION
        SELECT t.scope_id, t.seq FROM memory.observation_states t
        WHERE p_seqs IS NULL AND t.agent_key = p_agent AND t.follows AND EXISTS (
            SELECT FROM memory.lineage l
            WHERE (l.agent_key, l.scope_id, l.seq) = (p_agent, t.scope_id, t.seq)
              AND (p_scopes IS NULL OR l.source_scope_id = ANY (p_scopes) OR l.scope_id = ANY (p_scopes)) OFFSET 0
        )
    ), made AS (
        SELECT c.scope_id, c.seq, coalesce(d.status, 'active') AS status, coalesce(d.follows, false) AS follows, CASE
            WHEN s.is_merged THEN CASE WHEN s.loses_one THEN 'quarantined' WHEN s.least = 2 THEN 'superseded' ELSE 'active' END
            ELSE (ARRAY['active', 'superseded', 'given_up', 'quarantined'])[s.least]
        END AS becomes
        FROM concerned c
        LEFT JOIN LATERAL (
            SELECT d.* FROM memory.observation_states d WHERE (d.agent_key, d.scope_id, d.seq) = (p_agent, c.scope_id, c.seq) OFFSET 0
        ) d ON true
        CROSS JOIN LATERAL (
            SELECT bool_or(NOT l.whole) AS is_merged,
                   bool_or(NOT l.whole AND u.status IS NOT DISTINCT FROM 'quarantined') AS loses_one,
                   min(CASE
                       WHEN memory.supports(u.status) THEN 1 WHEN u.status = 'superseded' THEN 2 WHEN u.status = 'given_up' THEN 3 ELSE 4
                   END) AS least
            FROM memory.lineage l
            LEFT JOIN LATERAL (
                SELECT u.status FROM memory.observation_states u WHERE (u.agent_key, u.scope_id, u.seq) = (p_agent, l.source_scope_id, l.source_seq) OFFSET 0
            ) u ON true
            WHERE l.agent_key = p_agent AND l.scope_id = c.scope_id AND l.seq = c.seq
        ) s
    )
    SELECT m.scope_id, m.seq, m.status, m.becomes FROM made m
    CROSS JOIN LATERAL (
        SELECT o.source_kind FROM memory.observations o WHERE (o.agent_key, o.scope_id, o.seq) = (p_agent, m.scope_id, m.seq) OFFSET 0
    ) o
    WHERE m.becomes <> m.status AND (
        m.follows
        OR memory.in_use(m.status) AND NOT (
            (o.source_kind = 'propagation' OR m.becomes = 'superseded') AND EXISTS (
                SELECT FROM memory.evidence e
                WHERE e.agent_key = p_agent AND e.scope_id = m.scope_id AND e.seq = m.seq
                  AND (e.user_id IS NOT NULL OR e.conversation_id IS NULL AND e.run_id IS NULL)  -- stated by a person or the host
                  AND e.withdrawn_by IS NULL OFFSET 0
            )
        )
    )
$$;

COMMENT ON FUNCTION memory.unsettled IS
    'The derived observations whose status doesn''t match that of their sources; one row per observation.';
