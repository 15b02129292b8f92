-- memory.search_observations(…): the observations that a principal may see and a query finds, best first. One row per
-- observation, by its key; with its status and whether it was pending where p_as_of is given: of what was known then.
-- `p_query` is what memory_sql.domain.query.Query.to_json makes; its weights are the numbers of `Weights` and `Bounds`.
-- How it finds: every scope has words of its own in the text index (memory.search_tokens). Of a scope of more than `large`
-- observations some 250 are looked at first, to know how common each word is there; only the rarest words that stand in
-- about `large` of them are looked up, and where all are commoner, as many of the newest are read.
-- How it ranks: BM25, and the weights. What stands only in an observation's terms (`cues`) counts for the share `terms`; with 0
-- it isn't looked for. In masks each bit is a word of the query. Scopes up to `whole` observations are read
-- whole, for what stands around a match, unless there are more than 10,000 to see and no time is named; of others only what
-- stands within `around` of the `best`. What isn't a match itself is found where the turn before asks for it, where two
-- words of the query stand around it, or where the time fits that is named. With p_vector, of p_model, also the 50 nearest to
-- it in meaning (memory.similar), which gain by that; without, or where there are no vectors of that model, words alone count.
-- With `scope` only that scope is searched, which the library's own work may ask for without a user (memory.searched_scopes);
-- with `absorbed` only what is in use and in its scope's text, with `superseded` also what was superseded.
-- Row-level policies don't stand between it and the tables: it runs as its owner and asks memory.visible_scopes itself.
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
    c_wholly CONSTANT integer := 10000;
    c_sample CONSTANT integer := 256;
    w record;
    f record;
    v_agent bigint;
    v_scopes bigint[];
    v_sizes integer[];
    v_large bigint[];
    v_newest bigint[] := '{}';
    v_languages text[];
    v_named text[];
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
    v_hit_lines text[];
    v_hit_masks bigint[];
    v_hit_cues bigint[];
    v_hit_lengths integer[];
    v_hit_asks boolean[];
    v_hit_words double precision[];
    v_hit_terms double precision[];
    v_known_scopes bigint[];
    v_known_seqs integer[];
    v_known_statuses text[];
    v_known_pending boolean[];
    v_textual boolean;
    v_dated boolean;
    v_all boolean;
    v_scope bigint;
    v_size integer;
    v_whole integer;
    v_wholes bigint[];
    v_near_scopes bigint[];
    v_near_seqs integer[];
    v_near_meanings double precision[];
BEGIN
    SELECT x.* INTO w
    FROM jsonb_to_record(p_query -> 'weights') AS x(
        asked float8, near float8, "window" float8, conversation float8, speaker float8, "when" float8, date float8,
        substance float8, recency float8, disputed float8, archived float8, terms float8, vector float8, k1 numeric,
        b numeric, half_days integer, full_words integer, whole integer, large integer, best integer, around integer
    );
    SELECT x.* INTO f
    FROM jsonb_to_record(p_query) AS x(
        names text[], "when" boolean, spans datemultirange, phrases text[], without text[],
        said_by text, after date, before date, tags text[], scope bigint, absorbed boolean, superseded boolean
    );

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
    v_named := ARRAY(
        SELECT DISTINCT n.first
        FROM memory.scopes s
        CROSS JOIN unnest(s.speakers) p(speaker)
        CROSS JOIN LATERAL (SELECT split_part(lower(p.speaker), ' ', 1) AS first) n
        WHERE s.agent_key = v_agent AND s.scope_id = ANY (v_scopes) AND n.first = ANY (f.names)
    );

    SELECT array_agg(t.g), array_agg(t.language), array_agg(t.lexeme)
    INTO v_g, v_language, v_lexeme
    FROM memory.query_lexemes(p_query -> 'terms', v_languages, v_named) t;
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
            SELECT o.scope_id, o.seq, o.conversation_id, o.language, o.search, o.cues, o.content
            FROM memory.observations o
            WHERE memory.search_tokens(o.scope_id, o.search || o.cues) && v_tokens
        ), newest AS (
            SELECT o.scope_id, o.seq, o.conversation_id, o.language, o.search, o.cues, o.content
            FROM unnest(v_newest) n(scope_id)
            CROSS JOIN LATERAL (
                SELECT o.*
                FROM memory.observations o
                WHERE o.agent_key = v_agent AND o.scope_id = n.scope_id
                ORDER BY o.seq DESC
                LIMIT w.large
            ) o
        ), hit AS (
            SELECT o.scope_id, o.seq, coalesce('s' || o.conversation_id, 'o' || o.seq) AS line, length(o.search) AS length,
                   strpos(o.content, '?') > 0 OR strpos(o.content, U&'\FF1F') > 0 AS asks, (
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
        SELECT array_agg(h.scope_id), array_agg(h.seq), array_agg(h.line), array_agg(coalesce(h.mask, 0)),
               array_agg(coalesce(h.cues, 0)), array_agg(h.length), array_agg(h.asks), avg(h.length)
        INTO v_hit_scopes, v_hit_seqs, v_hit_lines, v_hit_masks, v_hit_cues, v_hit_lengths, v_hit_asks, v_average
        FROM hit h
        WHERE h.mask IS NOT NULL OR h.cues IS NOT NULL;

        v_idf := memory.word_rarities(
            v_total, v_common, ARRAY(SELECT m.mask | m.cues FROM unnest(v_hit_masks, v_hit_cues) m(mask, cues))
        );
        v_hit_words := memory.word_points(v_hit_masks, v_hit_lengths, v_idf, v_average, w.k1, w.b);
        v_hit_terms := memory.word_points(v_hit_cues, v_hit_lengths, v_idf, v_average, w.k1, w.b);
    END IF;
    IF p_vector IS NOT NULL AND w.vector > 0 THEN
        SELECT array_agg(s.scope_id), array_agg(s.seq), array_agg(s.meaning)
        INTO v_near_scopes, v_near_seqs, v_near_meanings
        FROM memory.similar(p_agent, p_user, p_conversation, p_as_of, p_model, p_vector, f.superseded) s
        WHERE s.scope_id = ANY (v_scopes);
    END IF;
    v_dated := NOT isempty(f.spans);
    -- Where no word is left to look for, all that was said by somebody or fits; nothing for words that say nothing.
    v_all := v_terms = 0 AND (
        cardinality(v_named) > 0 OR NOT v_dated AND (
            cardinality(f.tags) > 0 OR f.said_by IS NOT NULL OR f.after IS NOT NULL OR f.before IS NOT NULL
        )
    );
    IF v_terms = 0 AND NOT v_all AND NOT v_dated AND v_near_scopes IS NULL THEN
        RETURN;
    END IF;
    v_whole := CASE WHEN v_all OR v_dated OR v_total <= c_wholly THEN w.whole ELSE 0 END;
    v_wholes := ARRAY(
        SELECT s.scope_id
        FROM unnest(v_scopes, v_sizes) s(scope_id, size)
        WHERE s.size <= v_whole
          AND (v_all OR v_dated OR coalesce(s.scope_id = ANY (v_hit_scopes || v_near_scopes), false))
    );

    RETURN QUERY
    WITH hit AS MATERIALIZED (
        SELECT h.*
        FROM unnest(v_hit_scopes, v_hit_seqs, v_hit_lines, v_hit_masks, v_hit_words, v_hit_asks, v_hit_cues, v_hit_terms)
            AS h(scope_id, seq, line, mask, words, asks, cues, terms)
    ), near AS MATERIALIZED (
        SELECT n.*
        FROM unnest(v_near_scopes, v_near_seqs, v_near_meanings) AS n(scope_id, seq, meaning)
    ), looked_at AS (
        SELECT o.scope_id, o.seq, coalesce('s' || o.conversation_id, 'o' || o.seq) AS line, h.mask, h.words, h.asks, h.cues,
               h.terms, n.meaning,
               v_all OR v_dated AND (
                   (o.observed_at AT TIME ZONE 'UTC')::date <@ f.spans OR coalesce(o.dates && f.spans, false)
               ) AS asked_for
        FROM unnest(v_scopes, v_sizes) s(scope_id, size)
        CROSS JOIN LATERAL (  -- by its key, whatever the planner thinks of how many there are
            SELECT o.scope_id, o.seq, o.conversation_id, o.observed_at, o.dates
            FROM memory.observations o
            WHERE o.agent_key = v_agent AND o.scope_id = s.scope_id
            ORDER BY o.seq
            LIMIT w.whole
        ) o
        LEFT JOIN hit h ON h.scope_id = o.scope_id AND h.seq = o.seq
        LEFT JOIN near n ON n.scope_id = o.scope_id AND n.seq = o.seq
        WHERE s.scope_id = ANY (v_wholes)
        UNION ALL
        SELECT o.scope_id, o.seq, coalesce('s' || o.conversation_id, 'o' || o.seq), h.mask, h.words, h.asks, h.cues,
               h.terms, x.meaning,
               v_all OR v_dated AND (
                   (o.observed_at AT TIME ZONE 'UTC')::date <@ f.spans OR coalesce(o.dates && f.spans, false)
               )
        FROM (
            SELECT b.scope_id, b.seq::bigint + a.distance AS seq
            FROM (
                SELECT h.scope_id, h.seq
                FROM hit h
                WHERE h.scope_id <> ALL (v_wholes)
                ORDER BY h.words + w.terms * h.terms DESC, h.seq DESC, h.scope_id
                LIMIT w.best
            ) b
            CROSS JOIN generate_series(-w.around, w.around) a(distance)
            UNION
            SELECT s.scope_id, n.seq
            FROM unnest(v_scopes, v_sizes) s(scope_id, size)
            CROSS JOIN generate_series(s.size - w.whole, s.size) n(seq)
            WHERE s.scope_id <> ALL (v_wholes) AND v_terms = 0 AND (v_all OR v_dated)
            UNION
            SELECT n.scope_id, n.seq
            FROM near n
            WHERE n.scope_id <> ALL (v_wholes)
        ) n
        CROSS JOIN LATERAL (
            SELECT o.scope_id, o.seq, o.conversation_id, o.observed_at, o.dates
            FROM memory.observations o
            WHERE o.agent_key = v_agent AND o.scope_id = n.scope_id AND o.seq = n.seq
            LIMIT 1
        ) o
        LEFT JOIN hit h ON h.scope_id = o.scope_id AND h.seq = o.seq
        LEFT JOIN near x ON x.scope_id = o.scope_id AND x.seq = o.seq
    ), place AS (
        SELECT l.*, coalesce(bit_or(l.mask) OVER around, 0) AS around,
               CASE WHEN lag(l.asks) OVER line THEN lag(l.words) OVER line END AS asked,
               coalesce(lag(l.words, 2) OVER line, 0) + coalesce(lead(l.words, 2) OVER line, 0) AS near
        FROM looked_at l
        WINDOW line AS (PARTITION BY l.scope_id, l.line ORDER BY l.seq),
               around AS (line RANGE BETWEEN w.around PRECEDING AND w.around FOLLOWING)
    ), admitted AS MATERIALIZED (
        SELECT *
        FROM place p
        WHERE p.mask IS NOT NULL OR p.asked IS NOT NULL OR p.asked_for OR bit_count(p.around::bit(64)) >= 2
           OR p.meaning IS NOT NULL
    ), conversation AS MATERIALIZED (
        SELECT h.scope_id, h.line, bit_or(h.mask) AS mask FROM hit h GROUP BY h.scope_id, h.line
    ), worth AS MATERIALIZED (
        SELECT m.mask, sum(v_idf[g.g] ORDER BY g.g) AS idf
        FROM (SELECT a.around FROM admitted a UNION SELECT s.mask FROM conversation s) m(mask)
        JOIN generate_series(1, v_terms) g(g) ON m.mask >> (g.g - 1) & 1 = 1
        GROUP BY m.mask
    ), part AS (
        SELECT a.scope_id, a.seq, o.observed_at, a.mask, bit_count(a.around::bit(64)) >= 2 AS surrounded,
               coalesce(a.cues, 0) AS cues, w.terms * coalesce(a.terms, 0) AS terms, w.vector * coalesce(a.meaning, 0) AS vector,
               coalesce(a.words, 0) AS words, w.asked * coalesce(a.asked, 0) AS asked, w.near * a.near AS near,
               w."window" * coalesce(around.idf, 0) AS "window", w.conversation * coalesce(in_conversation.idf, 0) AS conversation,
               CASE WHEN cardinality(v_named) = 1 AND x.first_name = v_named[1] THEN w.speaker ELSE 0 END AS speaker,
               CASE WHEN f."when" AND o.dates IS NOT NULL THEN w."when" ELSE 0 END AS "when",
               CASE WHEN NOT v_dated THEN 0
                    WHEN x.day <@ f.spans OR coalesce(o.dates && f.spans, false) THEN w.date
                    ELSE 0 END AS date,
               memory.substance(w.substance, o.content, o.search, w.full_words) AS substance,
               memory.recency(w.recency, coalesce(p_as_of, p_at), o.observed_at, w.half_days) AS recency,
               CASE WHEN t.verification = 'disputed' THEN w.disputed ELSE 0 END
                   + CASE WHEN CASE
                         WHEN p_as_of IS NULL THEN t.status IN ('archived', 'superseded')
                         ELSE (o.scope_id, o.seq) IN (
                             SELECT k.scope_id, k.seq
                             FROM unnest(v_known_scopes, v_known_seqs, v_known_statuses) k(scope_id, seq, status)
                             WHERE k.status IN ('archived', 'superseded')
                         )
                     END THEN w.archived ELSE 0 END AS taken_off
        FROM admitted a
        CROSS JOIN LATERAL (
            SELECT o.scope_id, o.seq, o.content, o.observed_at, o.created_at, o.speaker, o.tags, o.language, o.search, o.dates
            FROM memory.observations o
            WHERE o.agent_key = v_agent AND o.scope_id = a.scope_id AND o.seq = a.seq
            LIMIT 1
        ) o
        CROSS JOIN LATERAL (
            SELECT split_part(lower(o.speaker), ' ', 1) AS first_name, (o.observed_at AT TIME ZONE 'UTC')::date AS day
        ) x
        LEFT JOIN LATERAL (  -- by its key, whatever the planner thinks of the table's size
            SELECT t.status, t.verification, t.repend
            FROM memory.observation_states t
            WHERE t.agent_key = v_agent AND t.scope_id = o.scope_id AND t.seq = o.seq
            LIMIT 1
        ) t ON true
        LEFT JOIN worth around ON around.mask = a.around
        LEFT JOIN conversation ON conversation.scope_id = a.scope_id AND conversation.line = a.line
        LEFT JOIN worth in_conversation ON in_conversation.mask = conversation.mask
        WHERE (
                a.mask IS NOT NULL
                OR CASE
                    WHEN p_as_of IS NULL THEN memory.is_sought(t.status, f.superseded)
                    ELSE (o.scope_id, o.seq) IN (
                        SELECT k.scope_id, k.seq FROM unnest(v_known_scopes, v_known_seqs) k(scope_id, seq)
                    )
                END
            )
          AND (NOT coalesce(f.absorbed, false) OR memory.in_use(t.status) AND t.repend IS NOT TRUE AND o.seq <= (
                  SELECT s.done_seq FROM memory.scopes s WHERE s.agent_key = v_agent AND s.scope_id = o.scope_id
              ))
          AND (NOT v_textual OR memory.holds_text(o.language, o.search, f.phrases, f.without))
          AND (f.said_by IS NULL OR lower(o.speaker) = f.said_by OR x.first_name = f.said_by)
          AND (f.after IS NULL OR x.day >= f.after)
          AND (f.before IS NULL OR x.day < f.before)
          AND o.tags @> f.tags
    ), best AS MATERIALIZED (
        SELECT p.*, x.total * (1 - p.taken_off) AS score, x.total * -p.taken_off AS lifecycle
        FROM part p
        CROSS JOIN LATERAL (
            SELECT p.words + p.terms + p.asked + p.near + p."window" + p.conversation + p.speaker + p."when" + p.date + p.substance
                   + p.recency + p.vector AS total
        ) x
        ORDER BY score DESC, p.observed_at DESC, p.scope_id, p.seq
        LIMIT p_limit
    )
    SELECT v_agent, b.scope_id, b.seq, k.status, k.pending, b.score,
           CASE WHEN p_explain THEN jsonb_build_object(
               'mask', b.mask, 'terms', (
                   SELECT o.terms
                   FROM memory.observations o
                   WHERE o.agent_key = v_agent AND o.scope_id = b.scope_id AND o.seq = b.seq
               ), 'admitted', CASE
                   WHEN b.mask <> 0 THEN 'words' WHEN b.cues <> 0 THEN 'terms' WHEN b.asked > 0 THEN 'asked' WHEN b.date > 0 THEN 'date'
                   WHEN v_all THEN 'all' WHEN b.surrounded THEN 'window' ELSE 'vector' END,
               'parts', jsonb_build_object(
                   'words', b.words, 'terms', b.terms, 'asked', b.asked, 'near', b.near, 'window', b."window", 'conversation', b.conversation,
                   'speaker', b.speaker, 'when', b."when", 'date', b.date, 'substance', b.substance,
                   'recency', b.recency, 'vector', b.vector, 'lifecycle', b.lifecycle
               )
           ) END
    FROM best b
    LEFT JOIN unnest(v_known_scopes, v_known_seqs, v_known_statuses, v_known_pending)
        AS k(scope_id, seq, status, pending) ON k.scope_id = b.scope_id AND k.seq = b.seq
    ORDER BY b.score DESC, b.observed_at DESC, b.scope_id, b.seq;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.search_observations(
    text, text, text, jsonb, bigint, timestamptz, timestamptz, boolean, bit varying, text
) FROM PUBLIC;

COMMENT ON FUNCTION memory.search_observations(
    text, text, text, jsonb, bigint, timestamptz, timestamptz, boolean, bit varying, text
) IS 'The observations that a user of an agent may see and a query finds, best first; one row per observation.';
