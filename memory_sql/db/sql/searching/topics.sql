-- memory.topics(agent, user, rows, limit): the heaviest terms of what the principal may see and is in use: of the newest so many
-- observations. One row each, heaviest first: a word that stands in one of them, in how many it or another form of it
-- stands, and its weight, the sum of TF · IDF: n · ln((N + 1) / n), where n of N observations have it. An observation has a word once, as its
-- search vector does, which is all that is read. Words of fewer than three characters, and figures, are none. It runs
-- as its owner and asks memory.visible_scopes itself.
CREATE OR REPLACE FUNCTION memory.topics(p_agent text, p_user text, p_rows bigint, p_limit bigint)
RETURNS TABLE (term text, observations bigint, weight double precision)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH newest AS MATERIALIZED (
        SELECT v.agent_key, v.scope_id, n.seq
        FROM memory.visible_scopes(p_agent, p_user, NULL) v
        JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id AND s.is_active
        CROSS JOIN LATERAL memory.newest_known(v.agent_key, v.scope_id, 'infinity', 1::bigint << 40, p_rows) n
        ORDER BY n.known_at DESC, v.scope_id DESC, n.seq DESC
        LIMIT p_rows
    ), word AS (
        SELECT u.lexeme, o.language, n.scope_id, n.seq
        FROM newest n
        CROSS JOIN LATERAL (
            SELECT o.language, o.search FROM memory.observations o
            WHERE o.agent_key = n.agent_key AND o.scope_id = n.scope_id AND o.seq = n.seq LIMIT 1
        ) o
        CROSS JOIN LATERAL unnest(tsvector_to_array(o.search)) u(lexeme)
        WHERE length(u.lexeme) >= 3 AND u.lexeme ~ '^[[:alpha:]]'
    ), heavy AS MATERIALIZED (
        SELECT w.lexeme, w.language, count(*) AS observations,
               count(*) * ln((SELECT count(*) + 1 FROM newest)::double precision / count(*)) AS weight,
               (array_agg(ARRAY[w.scope_id, w.seq] ORDER BY w.scope_id DESC, w.seq DESC))[1:1] AS newest
        FROM word w
        GROUP BY w.lexeme, w.language
        ORDER BY weight DESC, w.lexeme, w.language
        LIMIT p_limit
    )
    SELECT coalesce(f.word, h.lexeme), h.observations, h.weight
    FROM heavy h
    LEFT JOIN LATERAL (  -- as it is written in the newest
        SELECT t.word
        FROM memory.observations o
        CROSS JOIN LATERAL regexp_split_to_table(o.content, '[^[:alnum:]-]+') WITH ORDINALITY t(word, place)
        WHERE o.agent_key = (SELECT max(n.agent_key) FROM newest n) AND o.scope_id = h.newest[1][1] AND o.seq = h.newest[1][2]
          AND memory.search_vector(h.language, t.word) @@ quote_literal(h.lexeme)::tsquery
        ORDER BY t.place LIMIT 1
    ) f ON true
    ORDER BY h.weight DESC, h.lexeme, h.language;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.topics(text, text, bigint, bigint) FROM PUBLIC;

COMMENT ON FUNCTION memory.topics IS 'The heaviest terms of what a user of an agent may see; one row per term.';
