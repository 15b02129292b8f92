-- memory.entity(agent, user, name, limit): the observations in use that name something, or are about a user of that id: in what the
-- principal may see, newest first, at most so many. One row each, with the number of all of them in its scope, and the days from and to
-- which they were said (UTC). A text names it if it has all of its words, one after the other, whatever their case; in
-- a script without spaces, and where it is no word but a sign, it may stand anywhere. Each scope is read along
-- the text index, by the name's longest word; for a name without one, such as a sign, its newest `c_newest`. It runs as its owner and asks
-- memory.visible_scopes itself.
CREATE OR REPLACE FUNCTION memory.entity(p_agent text, p_user text, p_name text, p_limit bigint)
RETURNS TABLE (
    observation memory.observations, scope_kind text, owner text, name text, status text, verification text,
    superseded_by integer, pending boolean, version integer, resolved text, observations bigint, first date, last date
)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    c_newest CONSTANT integer := 2000;
    v_words text := memory.plain_words(p_name);
    v_inside boolean := p_name ~ '[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7a3]' OR btrim(v_words) = '';
    v_agent bigint; v_scopes bigint[]; v_languages text[]; v_tokens bigint[]; v_wordless bigint[];
BEGIN
    SELECT max(s.agent_key), array_agg(s.scope_id) INTO v_agent, v_scopes
    FROM memory.visible_scopes(p_agent, p_user, NULL) v
    JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id
    WHERE s.is_active;
    SELECT array_agg(hashtextextended(w.lexeme, x.space)) FILTER (WHERE w.lexeme IS NOT NULL),
           array_agg(s.scope_id) FILTER (WHERE w.lexeme IS NULL AND x.space = s.scope_id)
    INTO v_tokens, v_wordless
    FROM memory.scopes s
    CROSS JOIN LATERAL unnest(s.language || s.former_languages) l(language)
    LEFT JOIN LATERAL (
        SELECT u.lexeme FROM unnest(tsvector_to_array(memory.search_vector(l.language, p_name))) u(lexeme)
        WHERE u.lexeme ~ '^[[:alnum:]]+$'
        ORDER BY length(u.lexeme) DESC, u.lexeme LIMIT 1
    ) w ON true
    CROSS JOIN LATERAL (
        VALUES (memory.search_space(s.scope_id, 0, 'active', false)), (memory.search_space(s.scope_id, 0, 'active', true))
    ) x(space)
    WHERE s.agent_key = v_agent AND s.scope_id = ANY (v_scopes);
    RETURN QUERY
    WITH found AS MATERIALIZED (
        SELECT o.scope_id, o.seq, o.said_at,
               count(*) OVER of_scope AS observations, min(o.said_on) OVER of_scope AS first, max(o.said_on) OVER of_scope AS last
        FROM (
            SELECT DISTINCT o.scope_id, o.seq, coalesce(o.said_again_at, o.observed_at) AS said_at, (o.observed_at AT TIME ZONE 'UTC')::date AS said_on
            FROM (
                SELECT o.scope_id, o.seq, o.content, o.observed_at, o.said_again_at
                FROM memory.observations o
                WHERE memory.search_tokens(memory.search_space(o.scope_id, o.seq, o.standing, o.cold), o.search || o.cues) && v_tokens
                  AND o.standing IN ('active', 'archived', 'superseded') AND o.standing = 'active'
                OFFSET 0
            ) o
            WHERE o.scope_id = ANY (v_scopes) AND CASE WHEN v_inside THEN strpos(lower(o.content), lower(p_name)) > 0
                ELSE strpos(memory.plain_words(o.content), v_words) > 0 END
            UNION
            SELECT o.scope_id, o.seq, coalesce(o.said_again_at, o.observed_at), (o.observed_at AT TIME ZONE 'UTC')::date
            FROM unnest(v_wordless) s(scope_id)
            CROSS JOIN LATERAL (
                SELECT o.* FROM memory.observations o
                WHERE o.agent_key = v_agent AND o.scope_id = s.scope_id AND o.standing = 'active'
                ORDER BY o.seq DESC LIMIT c_newest
            ) o
            WHERE CASE WHEN v_inside THEN strpos(lower(o.content), lower(p_name)) > 0
                ELSE strpos(memory.plain_words(o.content), v_words) > 0 END
            UNION
            SELECT o.scope_id, o.seq, coalesce(o.said_again_at, o.observed_at), (o.observed_at AT TIME ZONE 'UTC')::date
            FROM memory.observations o
            WHERE o.subjects <> '{}' AND o.subjects @> ARRAY[p_name] AND o.agent_key = v_agent AND o.scope_id = ANY (v_scopes)
              AND o.standing = 'active'
        ) o
        WINDOW of_scope AS (PARTITION BY o.scope_id)
    ), page AS MATERIALIZED (
        SELECT f.* FROM found f ORDER BY f.said_at DESC, f.scope_id DESC, f.seq DESC LIMIT p_limit
    ), each AS (  -- of each scope at least the newest, however many there are of others
        SELECT p.* FROM page p
        UNION
        SELECT n.* FROM (SELECT DISTINCT ON (f.scope_id) f.* FROM found f ORDER BY f.scope_id, f.said_at DESC, f.seq DESC) n
    )
    SELECT o.*, e.observations, e.first, e.last
    FROM each e
    CROSS JOIN LATERAL memory.observation_as_read(v_agent, e.scope_id, e.seq) o
    ORDER BY e.said_at DESC, e.scope_id DESC, e.seq DESC;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.entity(text, text, text, bigint) FROM PUBLIC;

COMMENT ON FUNCTION memory.entity IS 'What a user of an agent may see and names something, newest first; one row per observation.';
