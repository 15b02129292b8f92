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
-- was superseded. With `overtaken` that comes apart, at most so many, if a consolidation found it contradicted, not where
-- somebody corrected it; whatever was superseded lends its score to what has taken its place in the end, which may say it
-- in other words. With `elsewhere` nothing that was said in the conversation `outside`. `strength` is the score
-- by what a word is worth (IDF) that stands in one observation alone of all that are searched: it compares between small
-- memories and large ones. `covered` is the share of what all words of the query are worth that those in the text or its
-- cues are. Row-level policies don't stand between it and the tables: it runs as its owner and asks
-- memory.visible_scopes itself.
CREATE OR REPLACE FUNCTION memory.search_observations(
    p_agent text, p_user text, p_conversation text, p_query jsonb, p_limit bigint, p_at timestamptz, p_as_of timestamptz,
    p_explain boolean, p_vector bit varying, p_model text
)
RETURNS TABLE (
    agent_key bigint, scope_id bigint, seq integer, status text, pending boolean, score double precision,
    strength double precision, covered double precision, overtaken boolean, near boolean, explanation jsonb
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    c_gone CONSTANT integer := 20;  -- of those that come apart so many are looked at
    c_steps CONSTANT integer := 20;  -- and what took their place as many times after each other
    w record;
    f record;
    seen record;
    known record;
    lexemes record;
    queries record;
    hits record;
    v_near_scopes bigint[];
    v_near_seqs integer[];
    v_meanings double precision[];
    v_scope record;
    v_newest bigint[] := '{}';
    v_tokens bigint[] := '{}';
    v_common double precision[];
    v_shares double precision[];
    v_chosen integer[];
    v_idf double precision[];
    v_unit double precision;
    v_textual boolean;
    v_dated boolean;
    v_fitting boolean;
    v_all boolean;
    v_apart boolean;
    v_superseded boolean;
    v_absorbed boolean;
    v_outside text;
BEGIN
    SELECT x.* INTO w
    FROM jsonb_to_record(p_query -> 'weights') AS x(
        k1 numeric, b numeric, terms float8, vector float8, date float8, disputed float8, archived float8,
        large integer, newest integer, best integer
    );
    SELECT x.* INTO f
    FROM jsonb_to_record(p_query) AS x(
        spans datemultirange, phrases text[], without text[], said_by text, after date, before date, tags text[],
        scope bigint, absorbed boolean, superseded boolean, overtaken integer, outside text, elsewhere boolean
    );
    v_apart := f.overtaken > 0;
    v_superseded := f.superseded OR v_apart;
    v_absorbed := coalesce(f.absorbed, false);
    v_outside := CASE WHEN f.elsewhere THEN f.outside END;
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
    WHERE p_as_of IS NOT NULL AND memory.is_sought(k.status, v_superseded);
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
        SELECT o.scope_id, o.seq, length(o.search) AS length, v_apart AND s.status = 'superseded' AS gone, (
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
        CROSS JOIN LATERAL (
            SELECT CASE WHEN p_as_of IS NULL THEN coalesce(t.status, 'active') ELSE (
                SELECT k.status
                FROM unnest(known.scopes, known.seqs, known.statuses) k(scope_id, seq, status)
                WHERE k.scope_id = o.scope_id AND k.seq = o.seq
            ) END AS status
        ) s
        WHERE o.scope_id = ANY (seen.scopes)
          AND s.status IS NOT NULL AND memory.is_sought(s.status, v_superseded)
    )
    SELECT array_agg(h.scope_id) AS scopes, array_agg(h.seq) AS seqs, array_agg(coalesce(h.mask, 0)) AS masks,
           array_agg(coalesce(h.cues, 0)) AS cues, array_agg(h.length) AS lengths, array_agg(h.gone) AS gone,
           coalesce(avg(h.length) FILTER (WHERE h.gone IS NOT TRUE), avg(h.length))::float8 AS average
    INTO hits
    FROM hit h
    WHERE h.mask IS NOT NULL OR h.cues IS NOT NULL;

    v_idf := memory.word_rarities(
        seen.total, v_common, ARRAY(  -- what comes apart doesn't make its words common
            SELECT m.mask | m.cues FROM unnest(hits.masks, hits.cues, hits.gone) m(mask, cues, gone) WHERE m.gone IS NOT TRUE
        )
    );

    v_unit := ln(1 + (greatest(seen.total, 1) - 0.5) / 1.5);  -- as memory.word_rarities for one of all

    IF p_vector IS NOT NULL AND w.vector > 0 THEN
        SELECT array_agg(s.scope_id), array_agg(s.seq), array_agg(s.meaning)
        INTO v_near_scopes, v_near_seqs, v_meanings
        FROM memory.similar(p_agent, p_user, p_conversation, p_as_of, p_model, p_vector, v_superseded) s
        WHERE s.scope_id = ANY (seen.scopes);
    END IF;
    v_textual := cardinality(f.phrases) > 0 OR cardinality(f.without) > 0;
    v_dated := NOT isempty(f.spans);
    v_fitting := cardinality(f.tags) > 0 OR f.said_by IS NOT NULL OR f.after IS NOT NULL OR f.before IS NOT NULL;
    -- Where no word is left to look for, all that was said by somebody or fits; nothing for words that say nothing.
    v_all := lexemes.found = 0 AND NOT v_dated AND v_fitting;

    RETURN QUERY
    WITH RECURSIVE pool AS MATERIALIZED (
        SELECT c.scope_id, c.seq, max(c.mask) AS mask, max(c.cues) AS cues, max(c.words) AS words, max(c.terms) AS terms,
               max(c.vector) AS vector, coalesce(bool_or(c.gone), false) AS gone
        FROM (
            SELECT h.scope_id, h.seq, h.mask, h.cues, h.words, w.terms * h.terms AS terms, 0 AS vector, h.gone
            FROM unnest(
                hits.scopes, hits.seqs, hits.masks, hits.cues,
                memory.word_points(hits.masks, hits.lengths, v_idf, hits.average, w.k1, w.b),
                memory.word_points(hits.cues, hits.lengths, v_idf, hits.average, w.k1, w.b), hits.gone
            ) h(scope_id, seq, mask, cues, words, terms, gone)
            UNION ALL
            SELECT n.scope_id, n.seq, 0, 0, 0, 0, w.vector * n.meaning, NULL
            FROM unnest(v_near_scopes, v_near_seqs, v_meanings) n(scope_id, seq, meaning)
            UNION ALL
            SELECT o.scope_id, o.seq, 0, 0, 0, 0, 0, NULL
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
    ), candidate AS MATERIALIZED (
        (
            SELECT p.*
            FROM pool p
            WHERE NOT p.gone
            ORDER BY p.words + p.terms + p.vector DESC, p.seq DESC, p.scope_id
            LIMIT CASE WHEN NOT (v_fitting OR v_textual OR v_dated) THEN greatest(w.best, p_limit) END
        )
        UNION ALL
        (
            SELECT p.*
            FROM pool p
            WHERE p.gone
            ORDER BY p.words + p.terms + p.vector DESC, p.seq DESC, p.scope_id
            LIMIT c_gone
        )
    ), part AS (
        SELECT c.*, o.observed_at, v_apart AND k.status = 'superseded' AS overtaken,
               CASE WHEN v_dated AND (x.day <@ f.spans OR o.dates && f.spans) THEN w.date ELSE 0 END AS date,
               CASE WHEN t.verification = 'disputed' THEN w.disputed ELSE 0 END
                   + CASE WHEN k.status IN ('archived', 'superseded') THEN w.archived ELSE 0 END AS taken_off
        FROM candidate c
        CROSS JOIN LATERAL (
            SELECT o.scope_id, o.seq, o.observed_at, o.conversation_id, o.speaker, o.tags, o.language, o.search, o.dates
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
        CROSS JOIN LATERAL (
            SELECT CASE WHEN p_as_of IS NULL THEN coalesce(t.status, 'active') ELSE (
                SELECT k.status
                FROM unnest(known.scopes, known.seqs, known.statuses) k(scope_id, seq, status)
                WHERE k.scope_id = o.scope_id AND k.seq = o.seq
            ) END AS status
        ) k
        WHERE k.status IS NOT NULL AND memory.is_sought(k.status, v_superseded)
          AND (v_outside IS NULL OR o.conversation_id IS DISTINCT FROM v_outside)
          AND (NOT v_absorbed OR memory.in_use(t.status) AND t.repend IS NOT TRUE AND o.seq <= (
                  SELECT s.done_seq FROM memory.scopes s WHERE s.agent_key = seen.agent AND s.scope_id = o.scope_id
              ))
          AND (NOT v_textual OR memory.holds_text(o.language, o.search, f.phrases, f.without))
          AND (NOT v_fitting OR (  -- a look at a record's field takes longer than all else here
              (f.said_by IS NULL OR f.said_by IN (lower(o.speaker), split_part(lower(o.speaker), ' ', 1)))
              AND (f.after IS NULL OR x.day >= f.after)
              AND (f.before IS NULL OR x.day < f.before)
              AND o.tags @> f.tags
          ))
    ), scored AS MATERIALIZED (
        SELECT p.*, x.total * (1 - p.taken_off) AS score, x.total * -p.taken_off AS lifecycle, 0 AS lent,
               p.mask | p.cues AS counted
        FROM part p
        CROSS JOIN LATERAL (SELECT p.words + p.terms + p.date + p.vector AS total) x
    ), successor AS (
        SELECT s.scope_id, s.seq, s.score, s.counted, 0 AS step FROM scored s WHERE s.overtaken AND p_as_of IS NULL
        UNION ALL
        SELECT s.scope_id, t.superseded_by, s.score, s.counted, s.step + 1
        FROM successor s
        CROSS JOIN LATERAL (
            SELECT t.superseded_by
            FROM memory.observation_states t
            WHERE t.agent_key = seen.agent AND t.scope_id = s.scope_id AND t.seq = s.seq AND t.superseded_by IS NOT NULL
            LIMIT 1
        ) t
        WHERE s.step < c_steps
    ), told AS (
        SELECT DISTINCT ON (c.scope_id, c.seq) c.*
        FROM (
            SELECT s.scope_id, s.seq, s.observed_at, s.overtaken, s.mask, s.cues, s.words, s.terms, s.date, s.vector,
                   s.lifecycle, s.lent, s.score, s.counted
            FROM scored s
            UNION ALL
            SELECT s.scope_id, s.seq, o.observed_at, false, 0, 0, 0, 0, 0, 0, 0, s.score, s.score, s.counted
            FROM successor s
            CROSS JOIN LATERAL (
                SELECT o.observed_at, o.conversation_id
                FROM memory.observations o
                WHERE o.agent_key = seen.agent AND o.scope_id = s.scope_id AND o.seq = s.seq
                LIMIT 1
            ) o
            LEFT JOIN LATERAL (
                SELECT t.status
                FROM memory.observation_states t
                WHERE t.agent_key = seen.agent AND t.scope_id = s.scope_id AND t.seq = s.seq
                LIMIT 1
            ) t ON true
            WHERE memory.in_use(t.status) AND (v_outside IS NULL OR o.conversation_id IS DISTINCT FROM v_outside)
        ) c
        ORDER BY c.scope_id, c.seq, c.score DESC, c.lent
    ), best AS MATERIALIZED (
        (
            SELECT t.*
            FROM told t
            WHERE t.overtaken IS NOT TRUE
            ORDER BY t.score DESC, t.observed_at DESC, t.scope_id, t.seq
            LIMIT p_limit
        )
        UNION ALL
        (
            SELECT t.*
            FROM told t
            CROSS JOIN LATERAL (  -- by its key, whatever the planner thinks of how many there are
                SELECT
                FROM memory.events e
                JOIN memory.consolidations c
                    ON c.agent_key = e.agent_key AND c.scope_id = e.scope_id AND c.version = e.version
                WHERE e.agent_key = seen.agent AND e.scope_id = t.scope_id AND e.seq = t.seq AND e.kind = 'status'
                  AND c.live AND c.contradictions @> jsonb_build_array(jsonb_build_object('older', t.seq))
                LIMIT 1
            ) c
            WHERE t.overtaken
            ORDER BY t.score DESC, t.observed_at DESC, t.scope_id, t.seq
            LIMIT f.overtaken
        )
    )
    SELECT seen.agent, b.scope_id, b.seq, k.status, k.pending, b.score,
           b.score / v_unit, coalesce((
               SELECT sum(i.idf) FILTER (WHERE b.counted >> (i.g::integer - 1) & 1 = 1) / sum(i.idf)
               FROM unnest(v_idf) WITH ORDINALITY i(idf, g)
           ), 0), b.overtaken, b.vector > 0,
           CASE WHEN p_explain THEN jsonb_build_object(
               'mask', b.mask, 'terms', (
                   SELECT o.terms
                   FROM memory.observations o
                   WHERE o.agent_key = seen.agent AND o.scope_id = b.scope_id AND o.seq = b.seq
               ), 'admitted', CASE
                   WHEN b.mask <> 0 THEN 'words' WHEN b.cues <> 0 THEN 'terms' WHEN b.date > 0 THEN 'date'
                   WHEN b.lent > 0 THEN 'successor' WHEN v_all THEN 'all' ELSE 'vector' END,
               'parts', jsonb_build_object(
                   'words', b.words, 'terms', b.terms, 'date', b.date, 'vector', b.vector, 'lifecycle', b.lifecycle,
                   'lent', b.lent
               )
           ) END
    FROM best b
    LEFT JOIN unnest(known.scopes, known.seqs, known.statuses, known.pending) k(scope_id, seq, status, pending)
        ON k.scope_id = b.scope_id AND k.seq = b.seq
    ORDER BY b.overtaken, b.score DESC, b.observed_at DESC, b.scope_id, b.seq;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.search_observations(
    text, text, text, jsonb, bigint, timestamptz, timestamptz, boolean, bit varying, text
) FROM PUBLIC;

COMMENT ON FUNCTION memory.search_observations(
    text, text, text, jsonb, bigint, timestamptz, timestamptz, boolean, bit varying, text
) IS 'The observations that a user of an agent may see and a query finds, best first; one row per observation.';
