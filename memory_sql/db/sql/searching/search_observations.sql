-- memory.search_observations(…): the observations that a principal may see and a query finds, best first. One row per
-- observation, by its key; with its status and whether it was pending where p_as_of is given: of what was known then.
-- p_query is what memory_sql.domain.query.Query.to_json makes; its weights are the numbers of `Weights` and `Bounds`.
-- How it finds: every scope has words of its own in the text index (memory.search_tokens). Of a scope of more than
-- `large` observations only the rarest words are looked up that stand in about `large` of them (memory.words_sampled),
-- and where all are commoner, as many of the newest are read. Where a time is named, or no word is left to look for,
-- the `newest` of each scope are looked at too. With p_vector, of p_model, also what is nearest to it in meaning
-- (memory.similar); without, or where there are no vectors of that model, words alone count. The `best` of all these are
-- scored, or all, where the query asks for more than words.
-- How it ranks: BM25 of the words, for the share `terms` of those that stand only in an observation's terms (`cues`;
-- with 0 they aren't looked for); how near it is in meaning; whether it fits the time that is named. Equal ones newest
-- first. In masks each bit is a word of the query.
-- With `scope` only that scope is searched, which the library's own work may ask for without a user
-- (memory.searched_scopes); with `absorbed` only what is in use and in its scope's text, with `superseded` also what
-- was superseded. Row-level policies don't stand between it and the tables: it runs as its owner and asks
-- memory.visible_scopes itself.
CREATE OR REPLACE FUNCTION memory.search_observations(
    p_agent text, p_user text, p_conversation text, p_query jsonb, p_limit bigint, p_at timestamptz, p_as_of timestamptz,
    p_explain boolean, p_vector bit varying, p_model text
)
RETURNS TABLE (
    agent_key bigint, scope_id bigint, seq integer, status text, pending boolean, score double precision,
    explanation jsonb
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    w record;
    f record;
    seen record;
    known record;
    lexemes record;
    queries record;
    hits record;
    near record;
    v_scope record;
    v_newest bigint[] := '{}';
    v_tokens bigint[] := '{}';
    v_common double precision[];
    v_shares double precision[];
    v_chosen integer[];
    v_idf double precision[];
    v_textual boolean;
    v_dated boolean;
    v_fitting boolean;
    v_all boolean;
BEGIN
    SELECT x.* INTO w
    FROM jsonb_to_record(p_query -> 'weights') AS x(
        k1 numeric, b numeric, terms float8, vector float8, date float8, disputed float8, archived float8,
        large integer, newest integer, best integer
    );
    SELECT x.* INTO f
    FROM jsonb_to_record(p_query) AS x(
        spans datemultirange, phrases text[], without text[], said_by text, after date, before date, tags text[],
        scope bigint, absorbed boolean, superseded boolean
    );
    SELECT max(s.agent_key) AS agent, array_agg(s.scope_id) AS scopes, array_agg(s.last_seq) AS sizes,
           array_agg(DISTINCT s.language) AS languages, coalesce(sum(s.last_seq), 0)::double precision AS total
    INTO seen
    FROM memory.searched_scopes(p_agent, p_user, p_conversation, p_as_of, f.scope) v
    JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id
    WHERE s.is_active;
    IF seen.agent IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(k.scope_id) AS scopes, array_agg(k.seq) AS seqs, array_agg(k.status) AS statuses,
           array_agg(k.pending) AS pending
    INTO known
    FROM memory.known_at(p_agent, p_user, p_conversation, p_as_of) k
    WHERE p_as_of IS NOT NULL AND memory.is_sought(k.status, f.superseded);
    SELECT array_agg(t.g) AS g, array_agg(t.language) AS languages, array_agg(t.lexeme) AS lexemes, count(*) AS found
    INTO lexemes
    FROM memory.query_lexemes(p_query -> 'terms', seen.languages) t;
    SELECT array_agg(t.g) AS g, array_agg(t.language) AS languages, array_agg(t.query) AS queries
    INTO queries
    FROM memory.lexeme_queries(lexemes.g, lexemes.languages, lexemes.lexemes) t;

    IF lexemes.found > 0 THEN
        v_tokens := ARRAY(
            SELECT DISTINCT hashtextextended(t.lexeme, s.id)
            FROM unnest(seen.scopes, seen.sizes) s(id, size)
            CROSS JOIN unnest(lexemes.lexemes) t(lexeme)
            WHERE s.size <= w.large
        );
        v_common := array_fill(0::double precision, ARRAY[(SELECT max(g) FROM unnest(lexemes.g) g)]);
        FOR v_scope IN SELECT s.* FROM unnest(seen.scopes, seen.sizes) s(id, size) WHERE s.size > w.large LOOP
            v_shares := memory.words_sampled(
                seen.agent, v_scope.id, v_scope.size, queries.g, queries.languages, queries.queries
            );
            v_chosen := memory.rarest_words(v_shares, lexemes.g, w.large);
            v_common := ARRAY(
                SELECT a.known + a.here FROM unnest(v_common, v_shares) WITH ORDINALITY a(known, here, g) ORDER BY a.g
            );
            IF cardinality(v_chosen) = 0 THEN
                v_newest := v_newest || v_scope.id;
            END IF;
            v_tokens := v_tokens || ARRAY(
                SELECT DISTINCT hashtextextended(t.lexeme, v_scope.id)
                FROM unnest(lexemes.g, lexemes.lexemes) t(g, lexeme)
                WHERE t.g = ANY (v_chosen)
            );
        END LOOP;
    END IF;

    WITH found AS MATERIALIZED (
        SELECT o.scope_id, o.seq, o.language, o.search, o.cues
        FROM memory.observations o
        WHERE memory.search_tokens(o.scope_id, o.search || o.cues) && v_tokens
    ), newest AS (
        SELECT o.scope_id, o.seq, o.language, o.search, o.cues
        FROM unnest(v_newest) n(scope_id)
        CROSS JOIN LATERAL (
            SELECT o.*
            FROM memory.observations o
            WHERE o.agent_key = seen.agent AND o.scope_id = n.scope_id
            ORDER BY o.seq DESC
            LIMIT w.large
        ) o
    ), hit AS (
        SELECT o.scope_id, o.seq, length(o.search) AS length, (
            SELECT bit_or(1::bigint << (t.g - 1))
            FROM unnest(queries.g, queries.languages, queries.queries) t(g, language, query)
            WHERE t.language = o.language AND o.search @@ t.query
        ) AS mask, CASE WHEN w.terms > 0 AND o.cues <> '' THEN (
            SELECT bit_or(1::bigint << (t.g - 1))
            FROM unnest(queries.g, queries.languages, queries.queries) t(g, language, query)
            WHERE t.language = o.language AND o.cues @@ t.query AND NOT o.search @@ t.query
        ) END AS cues
        FROM (TABLE found UNION ALL TABLE newest) o
        LEFT JOIN LATERAL (  -- by its key, whatever the planner thinks of the table's size
            SELECT t.status
            FROM memory.observation_states t
            WHERE t.agent_key = seen.agent AND t.scope_id = o.scope_id AND t.seq = o.seq
            LIMIT 1
        ) t ON true
        WHERE o.scope_id = ANY (seen.scopes)
          AND CASE
              WHEN p_as_of IS NULL THEN memory.is_sought(t.status, f.superseded)
              ELSE (o.scope_id, o.seq) IN (
                  SELECT k.scope_id, k.seq FROM unnest(known.scopes, known.seqs) k(scope_id, seq)
              )
          END
    )
    SELECT array_agg(h.scope_id) AS scopes, array_agg(h.seq) AS seqs, array_agg(coalesce(h.mask, 0)) AS masks,
           array_agg(coalesce(h.cues, 0)) AS cues, array_agg(h.length) AS lengths, avg(h.length)::float8 AS average
    INTO hits
    FROM hit h
    WHERE h.mask IS NOT NULL OR h.cues IS NOT NULL;

    v_idf := memory.word_rarities(
        seen.total, v_common, ARRAY(SELECT m.mask | m.cues FROM unnest(hits.masks, hits.cues) m(mask, cues))
    );

    SELECT array_agg(s.scope_id) AS scopes, array_agg(s.seq) AS seqs, array_agg(s.meaning) AS meanings
    INTO near
    FROM memory.similar(p_agent, p_user, p_conversation, p_as_of, p_model, p_vector, f.superseded) s
    WHERE p_vector IS NOT NULL AND w.vector > 0 AND s.scope_id = ANY (seen.scopes);
    v_textual := cardinality(f.phrases) > 0 OR cardinality(f.without) > 0;
    v_dated := NOT isempty(f.spans);
    v_fitting := cardinality(f.tags) > 0 OR f.said_by IS NOT NULL OR f.after IS NOT NULL OR f.before IS NOT NULL;
    -- Where no word is left to look for, all that was said by somebody or fits; nothing for words that say nothing.
    v_all := lexemes.found = 0 AND NOT v_dated AND v_fitting;

    RETURN QUERY
    WITH candidate AS MATERIALIZED (
        SELECT c.scope_id, c.seq, max(c.mask) AS mask, max(c.cues) AS cues, max(c.words) AS words, max(c.terms) AS terms,
               max(c.vector) AS vector
        FROM (
            SELECT h.scope_id, h.seq, h.mask, h.cues, h.words, w.terms * h.terms AS terms, 0 AS vector
            FROM unnest(
                hits.scopes, hits.seqs, hits.masks, hits.cues,
                memory.word_points(hits.masks, hits.lengths, v_idf, hits.average, w.k1, w.b),
                memory.word_points(hits.cues, hits.lengths, v_idf, hits.average, w.k1, w.b)
            ) h(scope_id, seq, mask, cues, words, terms)
            UNION ALL
            SELECT n.scope_id, n.seq, 0, 0, 0, 0, w.vector * n.meaning
            FROM unnest(near.scopes, near.seqs, near.meanings) n(scope_id, seq, meaning)
            UNION ALL
            SELECT o.scope_id, o.seq, 0, 0, 0, 0, 0
            FROM unnest(CASE WHEN v_all OR v_dated THEN seen.scopes END) s(scope_id)
            CROSS JOIN LATERAL (  -- by its key, whatever the planner thinks of how many there are
                SELECT o.scope_id, o.seq, o.observed_at, o.dates
                FROM memory.observations o
                WHERE o.agent_key = seen.agent AND o.scope_id = s.scope_id
                ORDER BY o.seq DESC
                LIMIT w.newest
            ) o
            WHERE v_all OR (o.observed_at AT TIME ZONE 'UTC')::date <@ f.spans OR coalesce(o.dates && f.spans, false)
        ) c
        GROUP BY c.scope_id, c.seq
        ORDER BY max(c.words) + max(c.terms) + max(c.vector) DESC, c.seq DESC, c.scope_id
        LIMIT CASE WHEN NOT (v_fitting OR v_textual OR v_dated) THEN greatest(w.best, p_limit) END
    ), part AS (
        SELECT c.*, o.observed_at,
               CASE WHEN x.day <@ f.spans OR coalesce(o.dates && f.spans, false) THEN w.date ELSE 0 END AS date,
               CASE WHEN t.verification = 'disputed' THEN w.disputed ELSE 0 END
                   + CASE WHEN CASE
                         WHEN p_as_of IS NULL THEN t.status IN ('archived', 'superseded')
                         ELSE (o.scope_id, o.seq) IN (
                             SELECT k.scope_id, k.seq
                             FROM unnest(known.scopes, known.seqs, known.statuses) k(scope_id, seq, status)
                             WHERE k.status IN ('archived', 'superseded')
                         )
                     END THEN w.archived ELSE 0 END AS taken_off
        FROM candidate c
        CROSS JOIN LATERAL (
            SELECT o.scope_id, o.seq, o.observed_at, o.speaker, o.tags, o.language, o.search, o.dates
            FROM memory.observations o
            WHERE o.agent_key = seen.agent AND o.scope_id = c.scope_id AND o.seq = c.seq
            LIMIT 1
        ) o
        CROSS JOIN LATERAL (SELECT (o.observed_at AT TIME ZONE 'UTC')::date AS day) x
        LEFT JOIN LATERAL (  -- by its key, whatever the planner thinks of the table's size
            SELECT t.status, t.verification, t.repend
            FROM memory.observation_states t
            WHERE t.agent_key = seen.agent AND t.scope_id = o.scope_id AND t.seq = o.seq
            LIMIT 1
        ) t ON true
        WHERE CASE
                  WHEN p_as_of IS NULL THEN memory.is_sought(t.status, f.superseded)
                  ELSE (o.scope_id, o.seq) IN (
                      SELECT k.scope_id, k.seq FROM unnest(known.scopes, known.seqs) k(scope_id, seq)
                  )
              END
          AND (NOT coalesce(f.absorbed, false) OR memory.in_use(t.status) AND t.repend IS NOT TRUE AND o.seq <= (
                  SELECT s.done_seq FROM memory.scopes s WHERE s.agent_key = seen.agent AND s.scope_id = o.scope_id
              ))
          AND (NOT v_textual OR memory.holds_text(o.language, o.search, f.phrases, f.without))
          AND (f.said_by IS NULL OR f.said_by IN (lower(o.speaker), split_part(lower(o.speaker), ' ', 1)))
          AND (f.after IS NULL OR x.day >= f.after)
          AND (f.before IS NULL OR x.day < f.before)
          AND o.tags @> f.tags
    ), best AS MATERIALIZED (
        SELECT p.*, x.total * (1 - p.taken_off) AS score, x.total * -p.taken_off AS lifecycle
        FROM part p
        CROSS JOIN LATERAL (SELECT p.words + p.terms + p.date + p.vector AS total) x
        ORDER BY score DESC, p.observed_at DESC, p.scope_id, p.seq
        LIMIT p_limit
    )
    SELECT seen.agent, b.scope_id, b.seq, k.status, k.pending, b.score,
           CASE WHEN p_explain THEN jsonb_build_object(
               'mask', b.mask, 'terms', (
                   SELECT o.terms
                   FROM memory.observations o
                   WHERE o.agent_key = seen.agent AND o.scope_id = b.scope_id AND o.seq = b.seq
               ), 'admitted', CASE
                   WHEN b.mask <> 0 THEN 'words' WHEN b.cues <> 0 THEN 'terms' WHEN b.date > 0 THEN 'date'
                   WHEN v_all THEN 'all' ELSE 'vector' END,
               'parts', jsonb_build_object(
                   'words', b.words, 'terms', b.terms, 'date', b.date, 'vector', b.vector, 'lifecycle', b.lifecycle
               )
           ) END
    FROM best b
    LEFT JOIN unnest(known.scopes, known.seqs, known.statuses, known.pending) k(scope_id, seq, status, pending)
        ON k.scope_id = b.scope_id AND k.seq = b.seq
    ORDER BY b.score DESC, b.observed_at DESC, b.scope_id, b.seq;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.search_observations(
    text, text, text, jsonb, bigint, timestamptz, timestamptz, boolean, bit varying, text
) FROM PUBLIC;

COMMENT ON FUNCTION memory.search_observations(
    text, text, text, jsonb, bigint, timestamptz, timestamptz, boolean, bit varying, text
) IS 'The observations that a user of an agent may see and a query finds, best first; one row per observation.';
