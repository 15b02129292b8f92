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
    w record;
    f record;
    seen record;
    lexemes record;
    queries record;
    v_known_scopes bigint[];
    v_known_seqs integer[];
    v_known_statuses text[];
    v_known_pending boolean[];
    v_near_scopes bigint[];
    v_near_seqs integer[];
    v_meanings double precision[];
    v_scope record;
    v_newest bigint[] := '{}';
    v_tokens bigint[] := '{}';
    v_common double precision[];
    v_shares double precision[];
    v_chosen integer[];
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
        k1 float8, b float8, terms float8, vector float8, date float8, disputed float8, archived float8,
        large integer, newest integer
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
           array_agg(DISTINCT s.language) AS languages, coalesce(sum(s.last_seq), 0)::double precision AS total,
           bool_or(s.last_seq > w.large) AS any_large
    INTO seen
    FROM memory.searched_scopes(p_agent, p_user, p_conversation, p_as_of, f.scope) v
    JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id
    WHERE s.is_active;
    IF seen.agent IS NULL THEN
        RETURN;
    END IF;
    IF p_as_of IS NOT NULL THEN
        SELECT array_agg(k.scope_id), array_agg(k.seq), array_agg(k.status), array_agg(k.pending)
        INTO v_known_scopes, v_known_seqs, v_known_statuses, v_known_pending
        FROM memory.known_at(p_agent, p_user, p_conversation, p_as_of) k
        WHERE memory.is_sought(k.status, v_superseded);
    END IF;
    SELECT array_agg(t.g) AS g, array_agg(t.language) AS languages, array_agg(t.lexeme) AS lexemes, count(*) AS found,
           max(t.g) AS most
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
        v_common := array_fill(0::double precision, ARRAY[lexemes.most]);
        IF seen.any_large THEN
            FOR v_scope IN SELECT s.* FROM unnest(seen.scopes, seen.sizes) s(id, size) WHERE s.size > w.large LOOP
                v_shares := memory.words_sampled(
                    seen.agent, v_scope.id, v_scope.size, queries.g, queries.languages, queries.queries
                );
                v_chosen := memory.rarest_words(v_shares, lexemes.g, w.large);
                v_common := ARRAY(
                    SELECT a.known + a.here
                    FROM unnest(v_common, v_shares) WITH ORDINALITY a(known, here, g)
                    ORDER BY a.g
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
    END IF;
    IF p_vector IS NOT NULL AND w.vector > 0 THEN
        SELECT array_agg(s.scope_id), array_agg(s.seq), array_agg(s.meaning)
        INTO v_near_scopes, v_near_seqs, v_meanings
        FROM memory.similar(p_agent, p_user, p_conversation, p_as_of, p_model, p_vector, v_superseded) s
        WHERE s.scope_id = ANY (seen.scopes);
    END IF;
    v_unit := ln(1 + (greatest(seen.total, 1) - 0.5) / 1.5);  -- as memory.word_rarities for one of all
    v_textual := cardinality(f.phrases) > 0 OR cardinality(f.without) > 0;
    v_dated := NOT isempty(f.spans);
    v_fitting := cardinality(f.tags) > 0 OR f.said_by IS NOT NULL OR f.after IS NOT NULL OR f.before IS NOT NULL;
    -- Where no word is left to look for, all that was said by somebody or fits; nothing for words that say nothing.
    v_all := lexemes.found = 0 AND NOT v_dated AND v_fitting;
    IF v_all OR v_dated THEN
        SELECT array_agg(n.scope_id), array_agg(n.seq), array_agg(n.meaning)
        INTO v_near_scopes, v_near_seqs, v_meanings
        FROM (
            SELECT n.scope_id, n.seq, max(n.meaning) AS meaning
            FROM (
                SELECT * FROM unnest(v_near_scopes, v_near_seqs, v_meanings)
                UNION ALL
                SELECT o.scope_id, o.seq, NULL
                FROM unnest(seen.scopes) s(scope_id)
                CROSS JOIN LATERAL (  -- by its key, whatever the planner thinks of how many there are
                    SELECT o.scope_id, o.seq, o.observed_at, o.dates
                    FROM memory.observations o
                    WHERE o.agent_key = seen.agent AND o.scope_id = s.scope_id
                    ORDER BY o.seq DESC
                    LIMIT w.newest
                ) o
                WHERE v_all OR (o.observed_at AT TIME ZONE 'UTC')::date <@ f.spans
                    OR coalesce(o.dates && f.spans, false)
            ) n(scope_id, seq, meaning)
            GROUP BY n.scope_id, n.seq
        ) n;
    END IF;
    RETURN QUERY
    WITH found AS (
        SELECT o.scope_id, o.seq, o.language, o.search, o.cues, o.observed_at, o.conversation_id, o.dates
        FROM memory.observations o
        WHERE memory.search_tokens(o.scope_id, o.search || o.cues) && v_tokens
        UNION ALL
        SELECT o.*
        FROM unnest(v_newest) n(scope_id)
        CROSS JOIN LATERAL (
            SELECT o.scope_id, o.seq, o.language, o.search, o.cues, o.observed_at, o.conversation_id, o.dates
            FROM memory.observations o
            WHERE o.agent_key = seen.agent AND o.scope_id = n.scope_id
            ORDER BY o.seq DESC
            LIMIT w.large
        ) o
    ), looked AS (  -- what is near is read by its key, whether or not it has a word as well
        SELECT o.*, NULL::double precision AS meaning, false AS near
        FROM found o
        WHERE NOT EXISTS (
            SELECT
            FROM unnest(v_near_scopes, v_near_seqs) n(scope_id, seq)
            WHERE n.scope_id = o.scope_id AND n.seq = o.seq
        )
        UNION ALL
        SELECT o.*, n.meaning, true
        FROM unnest(v_near_scopes, v_near_seqs, v_meanings) n(scope_id, seq, meaning)
        CROSS JOIN LATERAL (
            SELECT o.scope_id, o.seq, o.language, o.search, o.cues, o.observed_at, o.conversation_id, o.dates
            FROM memory.observations o
            WHERE o.agent_key = seen.agent AND o.scope_id = n.scope_id AND o.seq = n.seq
            LIMIT 1
        ) o
    ), read AS (
        SELECT o.scope_id, o.seq, o.observed_at, o.conversation_id, o.dates, length(o.search) AS length, o.meaning,
               o.near, t.verification = 'disputed' AS disputed, t.repend, k.pending,
               CASE WHEN p_as_of IS NULL THEN t.status ELSE k.status END AS status, (
            SELECT bit_or(1::bigint << (t.g - 1))
            FROM unnest(queries.g, queries.languages, queries.queries) t(g, language, query)
            WHERE t.language = o.language AND o.search @@ t.query
        ) AS mask, CASE WHEN w.terms > 0 AND o.cues <> '' THEN (
            SELECT bit_or(1::bigint << (t.g - 1))
            FROM unnest(queries.g, queries.languages, queries.queries) t(g, language, query)
            WHERE t.language = o.language AND o.cues @@ t.query AND NOT o.search @@ t.query
        ) END AS in_cues
        FROM looked o
        LEFT JOIN LATERAL (  -- by its key, whatever the planner thinks of the table's size
            SELECT t.status, t.verification, t.repend
            FROM memory.observation_states t
            WHERE t.agent_key = seen.agent AND t.scope_id = o.scope_id AND t.seq = o.seq
            LIMIT 1
        ) t ON true
        LEFT JOIN unnest(v_known_scopes, v_known_seqs, v_known_statuses, v_known_pending)
            k(scope_id, seq, status, pending)
            ON k.scope_id = o.scope_id AND k.seq = o.seq
        WHERE o.scope_id = ANY (seen.scopes)
          AND CASE WHEN p_as_of IS NULL THEN memory.is_sought(t.status, v_superseded) ELSE k.seq IS NOT NULL END
        OFFSET 0  -- each mask is worked out once
    ), hit AS MATERIALIZED (
        SELECT r.scope_id, r.seq, r.observed_at, r.conversation_id, r.length, r.meaning, r.status, r.pending,
               r.disputed, r.repend, r.mask, r.in_cues AS cues, r.mask IS NOT NULL OR r.in_cues IS NOT NULL AS worded,
               v_apart AND r.status IS NOT DISTINCT FROM 'superseded' AS gone, v_dated AND (
                   (r.observed_at AT TIME ZONE 'UTC')::date <@ f.spans OR coalesce(r.dates && f.spans, false)
               ) AS dated
        FROM read r
        WHERE r.near OR r.mask IS NOT NULL OR r.in_cues IS NOT NULL
    ), rarity AS MATERIALIZED (  -- what comes apart doesn't make its words common
        SELECT coalesce(avg(h.length) FILTER (WHERE NOT h.gone), avg(h.length))::float8 AS average, memory.word_rarities(
                   seen.total, v_common, array_agg(coalesce(h.mask, 0) | coalesce(h.cues, 0)) FILTER (WHERE NOT h.gone)
               ) AS idf, array_agg(h.mask) || array_agg(h.cues) AS masks
        FROM hit h
        WHERE h.worded
    ), worth AS MATERIALIZED (
        SELECT x.mask, x.idf FROM rarity r CROSS JOIN LATERAL memory.words_worth(r.masks, r.idf) x
    ), pool AS MATERIALIZED (
        SELECT h.*, memory.word_points(m.idf, h.length, r.average, w.k1, w.b) AS words,
               w.terms * memory.word_points(c.idf, h.length, r.average, w.k1, w.b) AS terms,
               w.vector * coalesce(h.meaning, 0) AS vector
        FROM hit h
        CROSS JOIN rarity r
        LEFT JOIN worth m ON m.mask = h.mask
        LEFT JOIN worth c ON c.mask = h.cues
    ), scored AS MATERIALIZED (
        SELECT c.*, x.date, y.total * (1 - x.taken_off) AS score, y.total * -x.taken_off AS lifecycle, 0 AS lent,
               coalesce(c.mask, 0) | coalesce(c.cues, 0) AS counted
        FROM (
            SELECT p.* FROM pool p WHERE NOT p.gone
            UNION ALL
            (
                SELECT p.*
                FROM pool p
                WHERE p.gone
                ORDER BY p.words + p.terms + p.vector DESC, p.seq DESC, p.scope_id
                LIMIT c_gone
            )
        ) c
        CROSS JOIN LATERAL (
            SELECT CASE WHEN c.dated THEN w.date ELSE 0 END AS date,
                   CASE WHEN c.disputed THEN w.disputed ELSE 0 END
                       + CASE WHEN c.status IN ('archived', 'superseded') THEN w.archived ELSE 0 END AS taken_off
        ) x
        CROSS JOIN LATERAL (SELECT c.words + c.terms + x.date + c.vector AS total) y
        WHERE (v_outside IS NULL OR c.conversation_id IS DISTINCT FROM v_outside)
          AND (NOT v_absorbed OR memory.in_use(c.status) AND c.repend IS NOT TRUE AND c.seq <= (
                  SELECT s.done_seq FROM memory.scopes s WHERE s.agent_key = seen.agent AND s.scope_id = c.scope_id
              ))
          AND (NOT (v_textual OR v_fitting) OR (
              SELECT (NOT v_textual OR memory.holds_text(o.language, o.content, o.search_extra, f.phrases, f.without))
                 AND (f.said_by IS NULL OR f.said_by IN (lower(o.speaker), split_part(lower(o.speaker), ' ', 1)))
                 AND (f.after IS NULL OR (o.observed_at AT TIME ZONE 'UTC')::date >= f.after)
                 AND (f.before IS NULL OR (o.observed_at AT TIME ZONE 'UTC')::date < f.before)
                 AND o.tags @> f.tags
              FROM memory.observations o
              WHERE o.agent_key = seen.agent AND o.scope_id = c.scope_id AND o.seq = c.seq
          ))
    ), heir AS MATERIALIZED (  -- what took the place of others in the end, by the best of them
        SELECT h.*
        FROM (
            SELECT array_agg(s.scope_id) AS scopes, array_agg(s.seq) AS seqs, array_agg(s.score) AS scores,
                   array_agg(s.counted) AS counted
            FROM scored s
            WHERE s.gone AND p_as_of IS NULL
        ) s
        CROSS JOIN LATERAL memory.heirs(seen.agent, s.scopes, s.seqs, s.scores, s.counted, v_outside) h
    ), told AS (
        SELECT s.scope_id, s.seq, s.observed_at, s.status, s.pending, s.gone, s.mask, s.cues, s.words, s.terms, s.date, s.vector,
               s.lifecycle, s.lent, s.score, s.counted
        FROM scored s
        WHERE NOT EXISTS (SELECT FROM heir h WHERE h.scope_id = s.scope_id AND h.seq = s.seq AND h.score > s.score)
        UNION ALL
        SELECT h.scope_id, h.seq, h.observed_at, h.status, NULL, false, NULL, NULL, 0, 0, 0, 0, 0, h.score, h.score, h.counted
        FROM heir h
        WHERE NOT EXISTS (SELECT FROM scored s WHERE s.scope_id = h.scope_id AND s.seq = h.seq AND s.score >= h.score)
    ), best AS MATERIALIZED (
        (
            SELECT t.*
            FROM told t
            WHERE NOT t.gone
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
            WHERE t.gone
            ORDER BY t.score DESC, t.observed_at DESC, t.scope_id, t.seq
            LIMIT f.overtaken
        )
    )
    SELECT seen.agent, b.scope_id, b.seq, CASE WHEN p_as_of IS NOT NULL THEN b.status END, b.pending, b.score,
           b.score / v_unit, coalesce((
               SELECT sum(i.idf) FILTER (WHERE b.counted >> (i.g::integer - 1) & 1 = 1) / sum(i.idf)
               FROM rarity r
               CROSS JOIN unnest(r.idf) WITH ORDINALITY i(idf, g)
           ), 0), b.gone, b.vector > 0,
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
    ORDER BY b.gone, b.score DESC, b.observed_at DESC, b.scope_id, b.seq;
END
$$;
REVOKE EXECUTE ON FUNCTION memory.search_observations(
    text, text, text, jsonb, bigint, timestamptz, timestamptz, boolean, bit varying, text
) FROM PUBLIC;
COMMENT ON FUNCTION memory.search_observations(
    text, text, text, jsonb, bigint, timestamptz, timestamptz, boolean, bit varying, text
) IS 'The observations that a user of an agent may see and a query finds, best first; one row per observation.';
