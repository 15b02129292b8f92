-- memory.tainted_versions(agent_key, scopes, scope_ids, seqs): the versions of texts that hold what goes. One row per
-- version, live or undone: those of `scopes`, those that absorbed one of the observations (scope_ids[i], seqs[i]), or were
-- shown it and left it waiting (a sentence that tells another may have some of its words), and those that were written on top
-- of such a one. What a live version passed over is known: it still waits, or another live one lists it among its extras. Of an
-- undone one it isn't, so its whole range counts.
CREATE OR REPLACE FUNCTION memory.tainted_versions(
    p_agent bigint, p_scopes bigint[], p_scope_ids bigint[], p_seqs integer[]
) RETURNS TABLE (scope_id bigint, version integer, live boolean)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE tainted AS (
        SELECT c.scope_id, c.version, c.live
        FROM (SELECT unnest(p_scopes) UNION SELECT unnest(p_scope_ids)) AS w (scope_id)
        JOIN memory.consolidations c ON c.agent_key = p_agent AND c.scope_id = w.scope_id
        WHERE c.scope_id = ANY (p_scopes) OR EXISTS (
            SELECT FROM unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
            LEFT JOIN memory.observation_states t ON t.agent_key = p_agent AND t.scope_id = k.scope_id AND t.seq = k.seq
            WHERE k.scope_id = c.scope_id AND (
                k.seq = ANY (c.extra_seqs || c.passed_seqs)
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
        UNION
        SELECT c.scope_id, c.version, c.live
        FROM tainted b
        JOIN memory.consolidations c ON c.agent_key = p_agent AND c.scope_id = b.scope_id AND c.base = b.version
    )
    SELECT scope_id, version, live FROM tainted
$$;

COMMENT ON FUNCTION memory.tainted_versions IS
    'The versions of texts that hold any of these observations or were shown it, or were written on top of such a one.';
