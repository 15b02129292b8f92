CREATE OR REPLACE FUNCTION memory.still_says(p_agent bigint, p_scope bigint, p_seq integer) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT coalesce((
        SELECT EXISTS (
            SELECT FROM regexp_split_to_table(left(n.content, 1000000), '(?<=[.!?])\s+|(?<=[。！？])|\n+') AS said (sentence)
            WHERE numnode(o.asked) > 0 AND memory.search_vector(o.language, said.sentence) @@ o.asked
              AND position(said.sentence IN c.content) > 0
        )
        FROM memory.scopes s
        JOIN memory.consolidations n ON n.agent_key = p_agent AND n.scope_id = p_scope AND n.version = s.version
        CROSS JOIN LATERAL (
            SELECT o.language, plainto_tsquery(o.language::regconfig, o.content) AS asked
            FROM memory.observations o
            WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.seq = p_seq LIMIT 1
        ) o
        CROSS JOIN LATERAL (
            SELECT c.content
            FROM memory.consolidations c
            WHERE c.agent_key = p_agent AND c.scope_id = p_scope AND c.live
              AND (p_seq = ANY (c.extra_seqs) OR p_seq > c.from_seq AND p_seq <= c.to_seq)
            ORDER BY p_seq = ANY (c.extra_seqs) DESC
            LIMIT 1
        ) c
        WHERE s.agent_key = p_agent AND s.scope_id = p_scope
    ), false)
$$;
COMMENT ON FUNCTION memory.still_says IS 'Whether the text of a scope says an observation as the version did that absorbed it; one value.';
