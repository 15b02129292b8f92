-- memory.observations_with(agent_key, query): the observations of an agent, whatever their status, that hold everything that a
-- query asks for. One row per observation. `p_query` is what memory_sql.domain.query.Query.to_json makes. Where memory.search
-- is content with any of the words, here every one counts, in the language of the observation; what is no word in that
-- language isn't looked for, and a query of which nothing is left there finds nothing. What was said again was said after and before a
-- day if it was so each time.
CREATE OR REPLACE FUNCTION memory.observations_with(p_agent bigint, p_query jsonb)
RETURNS TABLE (scope_id bigint, seq integer)
LANGUAGE sql STABLE AS $$
    WITH asked AS (
        SELECT x.*
        FROM jsonb_to_record(p_query) AS x(phrases text[], without text[], said_by text, after date, before date, tags text[], episode bigint)
    ), form AS (
        SELECT t.g, l.language, u.lexeme
        FROM (SELECT DISTINCT o.language FROM memory.observations o WHERE o.agent_key = p_agent) l
        CROSS JOIN jsonb_array_elements(p_query -> 'terms') WITH ORDINALITY t(term, g)
        CROSS JOIN LATERAL memory.query_lexemes(jsonb_build_array(t.term), ARRAY[l.language]) u
    ), form_list AS (
        SELECT array_agg(f.g::integer) AS g, array_agg(f.language) AS language, array_agg(f.lexeme) AS lexeme FROM form f
    ), wanted AS (
        SELECT q.language, string_agg('(' || q.query::text || ')', '&')::tsquery AS query
        FROM form_list f
        CROSS JOIN LATERAL memory.lexeme_queries(f.g, f.language, f.lexeme) q
        GROUP BY q.language
    )
    SELECT o.scope_id, o.seq
    FROM wanted q
    JOIN memory.observations o ON o.agent_key = p_agent AND o.language = q.language AND o.search @@ q.query
    CROSS JOIN asked f
    WHERE memory.holds_text(o.language, o.search, o.content, o.search_extra, f.phrases, f.without)
      AND (f.said_by IS NULL OR f.said_by IN (lower(o.speaker), split_part(lower(o.speaker), ' ', 1)))
      AND (f.after IS NULL OR (o.observed_at AT TIME ZONE 'UTC')::date >= f.after)
      AND (f.before IS NULL OR (coalesce(o.said_again_at, o.observed_at) AT TIME ZONE 'UTC')::date < f.before)
      AND o.tags @> f.tags
      AND (f.episode IS NULL OR EXISTS (
          SELECT FROM memory.observation_episodes n
          WHERE n.agent_key = p_agent AND n.scope_id = o.scope_id AND n.seq = o.seq AND n.episode_id = f.episode
      ))
$$;

COMMENT ON FUNCTION memory.observations_with(bigint, jsonb) IS
    'The observations that hold everything that a query asks for; one row per observation.';
