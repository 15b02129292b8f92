-- memory.search_observations(…): the observations that a principal may see and a query finds, best first. One row per
-- observation, by its key; with its status and whether it was pending where p_as_of is given: of what was known then.
-- `p_query` is what memory_sql.domain.query.Query.to_json makes; its weights are the numbers of `Weights` and `Bounds`.
-- How it finds: every scope has words of its own in the text index (memory.search_tokens). Of a scope of more than `large`
-- observations some 250 are looked at first, to know how common each word is there; only the rarest words that stand in
-- about `large` of them are looked up, and where all are commoner, as many of the newest are read. Where a time is named, or
-- no word is left to look for, the `newest` of each scope are looked at too. With p_vector, of p_model, where memory.similar
-- is there (`memory-sql db vectors enable`), also what is nearest to it; without, or where there are no vectors of that
-- model, words alone count. The `best` of all these are scored, all of them where not only words are asked for.
-- How it ranks: BM25 of the words, for the share `terms` of what stands only in an observation's terms (`cues`; with 0 it
-- isn't looked for), how near it is in meaning, and whether it fits the time that is named. In masks each bit is a word of
-- the query. `lends`: its points, whatever the fusion.
-- With `scope` only that scope is searched, which the library's own work may ask for without a user (memory.searched_scopes);
-- with `absorbed` only what is in use and in its scope's text, with `superseded` also what was superseded.
-- Row-level policies don't stand between it and the tables: it runs as its owner and asks memory.visible_scopes itself.
CREATE OR REPLACE FUNCTION memory.search_observations(
    p_agent text, p_user text, p_conversation text, p_query jsonb, p_limit bigint, p_at timestamptz, p_as_of timestamptz,
    p_explain boolean, p_vector real[], p_model text
)
RETURNS TABLE (
    agent_key bigint, scope_id bigint, seq integer, status text, pending boolean, score double precision,
    lends double precision, explanation jsonb
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    c_sample CONSTANT integer := 256;
    c_near CONSTANT integer := 50;
    c_rank CONSTANT integer := 10;
    w record;
    f record;
    v_agent bigint;
    v_scopes bigint[];
    v_sizes integer[];
    v_large bigint[];
    v_newest bigint[] := '{}';
    v_languages text[];
    v_g integer[];
    v_language text[];
    v_lexeme text[];
    v_query tsquery[];
    v_query_g integer[];
    v_query_language text[];
    v_terms integer;
    v_tokens bigint[] := '{}';
    v_common double precision[];
    v_total double precision;
    v_idf double precision[];
    v_average double precision;
    v_hit_scopes bigint[];
    v_hit_seqs integer[];
    v_hit_masks bigint[];
    v_hit_cues bigint[];
    v_hit_lengths integer[];
    v_hit_words double precision[];
    v_hit_terms double precision[];
    v_known_scopes bigint[];
    v_known_seqs integer[];
    v_known_statuses text[];
    v_known_pending boolean[];
    v_textual boolean;
    v_dated boolean;
    v_fitting boolean;
    v_all boolean;
    v_ranked boolean;
    v_scope bigint;
    v_size integer;
    v_asked regprocedure;
    v_near_scopes bigint[];
    v_near_seqs integer[];
    v_near_meanings double precision[];
BEGIN
    SELECT x.* INTO w
    FROM jsonb_to_record(p_query -> 'weights') AS x(
        k1 numeric, b numeric, terms float8, vector float8, rank float8, date float8, disputed float8, archived float8,
        large integer, newest integer, best integer
    );
    SELECT x.* INTO f
    FROM jsonb_to_record(p_query) AS x(
        spans datemultirange, phrases text[], without text[], said_by text, after date, before date, tags text[],
        fusion text, scope bigint, absorbed boolean, superseded boolean
    );

    v_ranked := f.fusion = 'rank';
    v_textual := cardinality(f.phrases) > 0 OR cardinality(f.without) > 0;

    SELECT max(s.agent_key), array_agg(s.scope_id), array_agg(s.last_seq), array_agg(DISTINCT s.language),
           array_agg(s.scope_id) FILTER (WHERE s.last_seq > w.large), coalesce(sum(s.last_seq), 0)
    INTO v_agent, v_scopes, v_sizes, v_languages, v_large, v_total
    FROM memory.searched_scopes(p_agent, p_user, p_conversation, p_as_of, f.scope) v
    JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id
    WHERE s.is_active;
    IF v_agent IS NULL THEN
        RETURN;
    END IF;
    IF p_as_of IS NOT NULL THEN
        SELECT array_agg(k.scope_id), array_agg(k.seq), array_agg(k.status), array_agg(k.pending)
        INTO v_known_scopes, v_known_seqs, v_known_statuses, v_known_pending
        FROM memory.known_at(p_agent, p_user, p_conversation, p_as_of) k
        WHERE memory.is_sought(k.status, f.superseded);
    END IF;

    SELECT array_agg(t.g), array_agg(t.language), array_agg(t.lexeme)
    INTO v_g, v_language, v_lexeme
    FROM memory.query_lexemes(p_query -> 'terms', v_languages) t;
    SELECT array_agg(t.g), array_agg(t.language), array_agg(t.query)
    INTO v_query_g, v_query_language, v_query
    FROM memory.lexeme_queries(v_g, v_language, v_lexeme) t;
    v_terms := coalesce((SELECT max(g) FROM unnest(v_g) g), 0);

    IF v_terms > 0 THEN
        v_tokens := ARRAY(
            SELECT DISTINCT hashtextextended(t.lexeme, s.scope_id)
            FROM unnest(v_scopes) s(scope_id)
            CROSS JOIN unnest(v_lexeme) t(lexeme)
            WHERE NOT coalesce(s.scope_id = ANY (v_large), false)
        );
        v_common := array_fill(0::double precision, ARRAY[v_terms]);
        FOR v_scope, v_size IN
            SELECT s.scope_id, s.size FROM unnest(v_scopes, v_sizes) s(scope_id, size) WHERE s.size > w.large
        LOOP
            DECLARE
                v_shares double precision[];
                v_chosen integer[];
            BEGIN
                -- In how many of its observations each word stands, from a sample of them; never none.
                WITH sample AS MATERIALIZED (
                    SELECT o.language, o.search
                    FROM generate_series(1, c_sample) i(i)
                    CROSS JOIN LATERAL (
                        SELECT o.seq, o.language, o.search
                        FROM memory.observations o
                        WHERE o.agent_key = v_agent AND o.scope_id = v_scope
                          AND o.seq = (i.i::bigint * v_size / c_sample)::integer
                        LIMIT 1
                    ) o
                    WHERE NOT EXISTS (  -- or a score would tell of its words
                        SELECT
                        FROM memory.observation_states t
                        WHERE t.agent_key = v_agent AND t.scope_id = v_scope AND t.seq = o.seq
                          AND NOT memory.is_found(t.status)
                    )
                )
                SELECT array_agg(x.found * v_size ORDER BY x.g)
                INTO v_shares
                FROM (
                    SELECT g.g, (count(o.language) + 0.5) / (c_sample + 1.0) AS found
                    FROM generate_series(1, v_terms) g(g)
                    LEFT JOIN unnest(v_query_g, v_query_language, v_query) t(g, language, query) ON t.g = g.g
                    LEFT JOIN sample o ON o.language = t.language AND o.search @@ t.query
                    GROUP BY g.g
                ) x;
                v_common := ARRAY(
                    SELECT a.known + a.here FROM unnest(v_common, v_shares) WITH ORDINALITY a(known, here, g) ORDER BY a.g
                );
                v_chosen := memory.rarest_words(v_shares, v_g, w.large);
                IF cardinality(v_chosen) = 0 THEN
                    v_newest := v_newest || v_scope;
                END IF;
                v_tokens := v_tokens || ARRAY(
                    SELECT DISTINCT hashtextextended(t.lexeme, v_scope)
                    FROM unnest(v_g, v_lexeme) t(g, lexeme)
                    WHERE t.g = ANY (v_chosen)
                );
            END;
        END LOOP;

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
                WHERE o.agent_key = v_agent AND o.scope_id = n.scope_id
                ORDER BY o.seq DESC
                LIMIT w.large
            ) o
        ), hit AS (
            SELECT o.scope_id, o.seq, length(o.search) AS length, (
                SELECT bit_or(1::bigint << (t.g - 1))
                FROM unnest(v_query_g, v_query_language, v_query) t(g, language, query)
                WHERE t.language = o.language AND o.search @@ t.query
            ) AS mask, CASE WHEN w.terms > 0 AND o.cues <> '' THEN (
                SELECT bit_or(1::bigint << (t.g - 1))
                FROM unnest(v_query_g, v_query_language, v_query) t(g, language, query)
                WHERE t.language = o.language AND o.cues @@ t.query AND NOT o.search @@ t.query
            ) END AS cues
            FROM (TABLE found UNION ALL TABLE newest) o
            LEFT JOIN LATERAL (  -- by its key, whatever the planner thinks of the table's size
                SELECT t.status, t.verification
                FROM memory.observation_states t
                WHERE t.agent_key = v_agent AND t.scope_id = o.scope_id AND t.seq = o.seq
                LIMIT 1
            ) t ON true
            WHERE o.scope_id = ANY (v_scopes)
              AND CASE
                  WHEN p_as_of IS NULL THEN memory.is_sought(t.status, f.superseded)
                  ELSE (o.scope_id, o.seq) IN (
                      SELECT k.scope_id, k.seq FROM unnest(v_known_scopes, v_known_seqs) k(scope_id, seq)
                  )
              END
        )
        SELECT array_agg(h.scope_id), array_agg(h.seq), array_agg(coalesce(h.mask, 0)), array_agg(coalesce(h.cues, 0)),
               array_agg(h.length), avg(h.length)
        INTO v_hit_scopes, v_hit_seqs, v_hit_masks, v_hit_cues, v_hit_lengths, v_average
        FROM hit h
        WHERE h.mask IS NOT NULL OR h.cues IS NOT NULL;

        v_idf := memory.word_rarities(
            v_total, v_common, ARRAY(SELECT m.mask | m.cues FROM unnest(v_hit_masks, v_hit_cues) m(mask, cues))
        );
        v_hit_words := memory.word_points(v_hit_masks, v_hit_lengths, v_idf, v_average, w.k1, w.b);
        v_hit_terms := memory.word_points(v_hit_cues, v_hit_lengths, v_idf, v_average, w.k1, w.b);
    END IF;
    IF p_vector IS NOT NULL AND (w.vector > 0 OR w.rank > 0) THEN
        v_asked := to_regprocedure(
            'memory.similar(text, text, text, timestamptz, text, real[], integer, bigint[], integer[], boolean)'
        );
        IF v_asked IS NOT NULL AND has_function_privilege(v_asked, 'EXECUTE') THEN
            -- By how many standard deviations of the nearest ones each is nearer than the farthest of them.
            EXECUTE 'SELECT array_agg(s.scope_id), array_agg(s.seq), array_agg(coalesce(s.gap / nullif(s.deviation, 0), 0))'
                ' FROM (SELECT s.*, s.standing - min(s.standing) OVER () AS gap, stddev_pop(s.standing) OVER () AS deviation'
                ' FROM memory.similar($1, $2, $3, $4, $5, $6, $7, NULL, NULL, $8) s) s'
            INTO v_near_scopes, v_near_seqs, v_near_meanings
            USING p_agent, p_user, p_conversation, p_as_of, p_model, p_vector, c_near, f.superseded;
        END IF;
    END IF;
    v_dated := NOT isempty(f.spans);
    v_fitting := cardinality(f.tags) > 0 OR f.said_by IS NOT NULL OR f.after IS NOT NULL OR f.before IS NOT NULL;
    -- Where no word is left to look for, all that was said by somebody or fits; nothing for words that say nothing.
    v_all := v_terms = 0 AND NOT v_dated AND v_fitting;
    IF v_terms = 0 AND NOT v_all AND NOT v_dated AND v_near_scopes IS NULL THEN
        RETURN;
    END IF;

    RETURN QUERY
    WITH candidate AS MATERIALIZED (
        SELECT c.scope_id, c.seq, max(c.mask) AS mask, max(c.cues) AS cues, max(c.words) AS words, max(c.terms) AS terms,
               max(c.vector) AS vector, max(c.place) AS place
        FROM (
            SELECT h.scope_id, h.seq, h.mask, h.cues, h.words, w.terms * h.terms AS terms, 0 AS vector, NULL AS place
            FROM unnest(v_hit_scopes, v_hit_seqs, v_hit_masks, v_hit_cues, v_hit_words, v_hit_terms)
                AS h(scope_id, seq, mask, cues, words, terms)
            UNION ALL
            SELECT n.scope_id, n.seq, 0, 0, 0, 0, w.vector * n.meaning, rank() OVER (ORDER BY n.meaning DESC)
            FROM unnest(v_near_scopes, v_near_seqs, v_near_meanings) n(scope_id, seq, meaning)
            UNION ALL
            SELECT o.scope_id, o.seq, 0, 0, 0, 0, 0, NULL
            FROM unnest(CASE WHEN v_all OR v_dated THEN v_scopes END) s(scope_id)
            CROSS JOIN LATERAL (  -- by its key, whatever the planner thinks of how many there are
                SELECT o.scope_id, o.seq, o.observed_at, o.dates
                FROM memory.observations o
                WHERE o.agent_key = v_agent AND o.scope_id = s.scope_id
                ORDER BY o.seq DESC
                LIMIT w.newest
            ) o
            WHERE v_all OR (o.observed_at AT TIME ZONE 'UTC')::date <@ f.spans OR coalesce(o.dates && f.spans, false)
        ) c
        GROUP BY c.scope_id, c.seq
        ORDER BY max(c.words) + max(c.terms) + max(c.vector) DESC, c.seq DESC, c.scope_id
        LIMIT CASE WHEN NOT (v_fitting OR v_textual OR v_dated) THEN greatest(w.best, p_limit) END
    ), part AS (
        SELECT c.*, o.observed_at, CASE WHEN x.day <@ f.spans OR coalesce(o.dates && f.spans, false) THEN w.date ELSE 0 END AS date,
               CASE WHEN t.verification = 'disputed' THEN w.disputed ELSE 0 END
                   + CASE WHEN CASE
                         WHEN p_as_of IS NULL THEN t.status IN ('archived', 'superseded')
                         ELSE (o.scope_id, o.seq) IN (
                             SELECT k.scope_id, k.seq
                             FROM unnest(v_known_scopes, v_known_seqs, v_known_statuses) k(scope_id, seq, status)
                             WHERE k.status IN ('archived', 'superseded')
                         )
                     END THEN w.archived ELSE 0 END AS taken_off
        FROM candidate c
        CROSS JOIN LATERAL (
            SELECT o.scope_id, o.seq, o.observed_at, o.speaker, o.tags, o.language, o.search, o.dates
            FROM memory.observations o
            WHERE o.agent_key = v_agent AND o.scope_id = c.scope_id AND o.seq = c.seq
            LIMIT 1
        ) o
        CROSS JOIN LATERAL (SELECT (o.observed_at AT TIME ZONE 'UTC')::date AS day) x
        LEFT JOIN LATERAL (  -- by its key, whatever the planner thinks of the table's size
            SELECT t.status, t.verification, t.repend
            FROM memory.observation_states t
            WHERE t.agent_key = v_agent AND t.scope_id = o.scope_id AND t.seq = o.seq
            LIMIT 1
        ) t ON true
        WHERE CASE
                  WHEN p_as_of IS NULL THEN memory.is_sought(t.status, f.superseded)
                  ELSE (o.scope_id, o.seq) IN (
                      SELECT k.scope_id, k.seq FROM unnest(v_known_scopes, v_known_seqs) k(scope_id, seq)
                  )
              END
          AND (NOT coalesce(f.absorbed, false) OR memory.in_use(t.status) AND t.repend IS NOT TRUE AND o.seq <= (
                  SELECT s.done_seq FROM memory.scopes s WHERE s.agent_key = v_agent AND s.scope_id = o.scope_id
              ))
          AND (NOT v_textual OR memory.holds_text(o.language, o.search, f.phrases, f.without))
          AND (f.said_by IS NULL OR f.said_by IN (lower(o.speaker), split_part(lower(o.speaker), ' ', 1)))
          AND (f.after IS NULL OR x.day >= f.after)
          AND (f.before IS NULL OR x.day < f.before)
          AND o.tags @> f.tags
    ), best AS MATERIALIZED (
        SELECT r.*, CASE WHEN v_ranked THEN r.by_words + r.by_vector ELSE r.lends END AS score
        FROM (
            SELECT p.*, (x.total + p.vector) * (1 - p.taken_off) AS lends, (x.total + p.vector) * -p.taken_off AS lifecycle,
                   1.0::double precision / (c_rank + rank() OVER (ORDER BY x.total * (1 - p.taken_off) DESC)) AS by_words,
                   coalesce(w.rank / (c_rank + p.place), 0) AS by_vector
            FROM part p
            CROSS JOIN LATERAL (SELECT p.words + p.terms + p.date AS total) x
        ) r
        ORDER BY score DESC, r.observed_at DESC, r.scope_id, r.seq
        LIMIT p_limit
    )
    SELECT v_agent, b.scope_id, b.seq, k.status, k.pending, b.score, b.lends,
           CASE WHEN p_explain THEN jsonb_build_object(
               'mask', b.mask, 'terms', (
                   SELECT o.terms
                   FROM memory.observations o
                   WHERE o.agent_key = v_agent AND o.scope_id = b.scope_id AND o.seq = b.seq
               ), 'admitted', CASE
                   WHEN b.mask <> 0 THEN 'words' WHEN b.cues <> 0 THEN 'terms' WHEN b.date > 0 THEN 'date' WHEN v_all THEN 'all'
                   ELSE 'vector' END,
               'parts', CASE WHEN v_ranked THEN jsonb_build_object('text', b.by_words, 'vector', b.by_vector) ELSE
               jsonb_build_object(
                   'words', b.words, 'terms', b.terms, 'date', b.date, 'vector', b.vector, 'lifecycle', b.lifecycle
               ) END
           ) END
    FROM best b
    LEFT JOIN unnest(v_known_scopes, v_known_seqs, v_known_statuses, v_known_pending)
        AS k(scope_id, seq, status, pending) ON k.scope_id = b.scope_id AND k.seq = b.seq
    ORDER BY b.score DESC, b.observed_at DESC, b.scope_id, b.seq;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.search_observations(
    text, text, text, jsonb, bigint, timestamptz, timestamptz, boolean, real[], text
) FROM PUBLIC;

COMMENT ON FUNCTION memory.search_observations(
    text, text, text, jsonb, bigint, timestamptz, timestamptz, boolean, real[], text
) IS 'The observations that a user of an agent may see and a query finds, best first; one row per observation.';
