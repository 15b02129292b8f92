CREATE OR REPLACE FUNCTION memory.people_behind(p_agent bigint, p_scope_ids bigint[], p_seqs integer[], p_new_days real)
RETURNS TABLE (scope_id bigint, seq integer, person text, established boolean)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE line (scope_id, seq, source_scope_id, source_seq) AS (
        SELECT k.scope_id, k.seq, k.scope_id, k.seq
        FROM unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
        UNION
        SELECT n.scope_id, n.seq, l.source_scope_id, l.source_seq
        FROM line n
        JOIN memory.lineage l
            ON l.agent_key = p_agent AND l.scope_id = n.source_scope_id AND l.seq = n.source_seq
        WHERE NOT EXISTS (
            SELECT FROM memory.observation_states t
            WHERE t.agent_key = p_agent AND t.scope_id = l.source_scope_id AND t.seq = l.source_seq
              AND memory.is_aside(t.status)
        )
    ), said AS (
        SELECT DISTINCT n.scope_id, n.seq, e.user_id, e.created_at
        FROM line n
        JOIN memory.evidence e ON e.agent_key = p_agent AND e.scope_id = n.source_scope_id AND e.seq = n.source_seq
        WHERE e.user_id IS NOT NULL AND e.withdrawn_by IS NULL
          AND NOT (
              (n.source_scope_id, n.source_seq) = (n.scope_id, n.seq) AND EXISTS (
                  SELECT FROM memory.lineage m
                  WHERE m.agent_key = p_agent AND m.scope_id = n.scope_id AND m.seq = n.seq AND NOT m.whole
              )
          )
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
COMMENT ON FUNCTION memory.people_behind IS
    'The people who support observations, and whether each was established by then; one row per observation and person.';
