"""Rank what a search finds, and find it in messages as well

Frozen: imports nothing of memory_sql. What is stored already is found by its words; by identifiers, folded and unspaced ones
only what is stored from now on.

Building an index takes some 30 µs a row, and writers wait meanwhile. Where that is too long: docs/deploying.md says how to
build the larger one beforehand, CONCURRENTLY; it is then left as it is.

Revision ID: 9b6e1d4c70fa
Revises: c41e7a90b3d8
Create Date: 2026-11-22 04:30:00+00:00
"""

from __future__ import annotations

import re

import sqlalchemy as sa
from alembic import op

revision = "9b6e1d4c70fa"
down_revision = "c41e7a90b3d8"
branch_labels = None
depends_on = None

SEARCH_TOKENS = """
-- memory.search_tokens(space, search): what the text indexes hold: one number per word and space (a scope, or an owner's
-- messages), so that a look-up reads the words of that space alone, however many others there are. Its body is bound to
-- what it calls: whose path is searched makes no difference to an index.
CREATE OR REPLACE FUNCTION memory.search_tokens(p_space bigint, p_search tsvector) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (
    SELECT coalesce(array_agg(hashtextextended(u.lexeme, p_space)), '{}') FROM unnest(tsvector_to_array(p_search)) u(lexeme)
);

COMMENT ON FUNCTION memory.search_tokens(bigint, tsvector) IS
    'The words of a search vector as numbers, other ones in every space; what the text indexes hold.';
"""

QUERY_LEXEMES = """
-- memory.query_lexemes(terms, languages, named): the words of a query as each of the languages stems them, with the number
-- of the term that asks for them. One row per language and lexeme; two terms with one stem are one. Without the terms that
-- are the name of somebody who speaks there.
CREATE OR REPLACE FUNCTION memory.query_lexemes(p_terms jsonb, p_languages text[], p_named text[])
RETURNS TABLE (g integer, language text, lexeme text)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT min(t.g)::integer, l.language, u.lexeme
    FROM unnest(p_languages) l(language)
    CROSS JOIN jsonb_array_elements(p_terms) WITH ORDINALITY t(term, g)
    CROSS JOIN LATERAL (
        SELECT unnest(tsvector_to_array(to_tsvector(l.language::regconfig, e.word)))
        FROM jsonb_array_elements_text(t.term -> 'words') e(word)
        UNION
        SELECT jsonb_array_elements_text(t.term -> 'extra')
    ) u(lexeme)
    WHERE NOT coalesce(t.term -> 'words' ->> 0 = ANY (p_named), false)
    GROUP BY l.language, u.lexeme
$$;

COMMENT ON FUNCTION memory.query_lexemes(jsonb, text[], text[]) IS
    'The words of a query as each language stems them; one row per language and lexeme.';
"""

LEXEME_QUERIES = r"""
-- memory.lexeme_queries(g, language, lexeme): what memory.query_lexemes gave, as one tsquery per term and language that any of
-- its lexemes satisfies.
CREATE OR REPLACE FUNCTION memory.lexeme_queries(p_g integer[], p_language text[], p_lexeme text[])
RETURNS TABLE (g integer, language text, query tsquery)
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT t.g, t.language,
           string_agg('''' || replace(replace(t.lexeme, '\', '\\'), '''', '''''') || '''', '|')::tsquery
    FROM unnest(p_g, p_language, p_lexeme) t(g, language, lexeme)
    GROUP BY t.g, t.language
$$;

COMMENT ON FUNCTION memory.lexeme_queries(integer[], text[], text[]) IS
    'One tsquery per term and language; one row each.';
"""

HOLDS_TEXT = """
-- memory.holds_text(language, search, phrases, without): whether all of the phrases stand in a text and none of what must not.
CREATE OR REPLACE FUNCTION memory.holds_text(p_language text, p_search tsvector, p_phrases text[], p_without text[])
RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT coalesce((
               SELECT bool_and(p_search @@ phraseto_tsquery(p_language::regconfig, p.phrase)) FROM unnest(p_phrases) p(phrase)
           ), true)
       AND NOT coalesce((
               SELECT bool_or(p_search @@ phraseto_tsquery(p_language::regconfig, w.word)) FROM unnest(p_without) w(word)
           ), false)
$$;

COMMENT ON FUNCTION memory.holds_text(text, tsvector, text[], text[]) IS
    'Whether all of the phrases stand in a text and none of what must not.';
"""

SEARCH_OBSERVATIONS = r"""
-- memory.search_observations(…): the observations that a principal may see and a query finds, best first. One row per
-- observation. `p_query` is what memory_sql.ranking.Query.to_json makes. p_as_of: of what was known at that moment.
-- How it finds: every scope has words of its own in the text index (memory.search_tokens).
-- Of a scope of more than 2,000 observations some 250 are looked at first, to know how common each word is there; only the
-- rarest words that stand in about 2,000 of them are looked up, and where all are commoner, the newest 2,000 are read.
-- How it ranks: BM25, and the weights of memory_sql.ranking.Weights. In masks each bit is a word of the query. Scopes up to
-- 1,000 observations are read whole, for what stands around a match, unless there are more than 10,000 to see and no time is
-- named; of others only what stands within five of the best 300. What isn't a match itself is found where the turn before
-- asks for it, where two words of the query stand around it, or where the time fits that is named. With p_vector, of
-- p_model, where memory.similar is there (`memory-sql db vectors enable`), also what is among the 50 nearest to it, and what
-- is above the mean in similarity gains by that; without, or where there are no vectors of that model, words alone count.
-- `lends`: its points, whatever the fusion.
-- Row-level policies don't stand between it and the tables: it runs as its owner and asks memory.visible_scopes itself.
CREATE OR REPLACE FUNCTION memory.search_observations(
    p_agent text, p_user text, p_session text, p_query jsonb, p_limit bigint, p_at timestamptz, p_as_of timestamptz,
    p_explain boolean, p_vector real[], p_model text
)
RETURNS TABLE (
    scope_id bigint, seq integer, scope_kind text, owner text, name text, content text, observed_at timestamptz,
    created_at timestamptz, source_kind text, session_id text, speaker text, message_ids text[], run_id bigint,
    category text, kind text, confidence real, importance real, sensitivity text, no_propagate boolean,
    confidential boolean, verification text, superseded_by integer, fact_key text, version integer, tags text[],
    own_metadata jsonb, status text, pending boolean, agent_key bigint, score double precision, lends double precision,
    explanation jsonb
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    c_whole CONSTANT integer := 1000;
    c_wholly CONSTANT integer := 10000;
    c_large CONSTANT integer := 2000;
    c_sample CONSTANT integer := 256;
    c_best CONSTANT integer := 300;
    c_around CONSTANT integer := 5;
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
    v_hit_lengths integer[];
    v_hit_asks boolean[];
    v_hit_words double precision[];
    v_known_scopes bigint[];
    v_known_seqs integer[];
    v_known_statuses text[];
    v_known_pending boolean[];
    v_textual boolean;
    v_dated boolean;
    v_all boolean;
    v_ranked boolean;
    v_scope bigint;
    v_size integer;
    v_whole integer;
    v_wholes bigint[];
    v_asked regprocedure;
    v_near_scopes bigint[];
    v_near_seqs integer[];
    v_near_standings double precision[];
    v_near_places bigint[];
BEGIN
    SELECT x.* INTO w
    FROM jsonb_to_record(p_query -> 'weights') AS x(
        asked float8, near float8, "window" float8, session float8, speaker float8, "when" float8, date float8,
        substance float8, recency float8, disputed float8, archived float8, vector float8, rank float8
    );
    SELECT x.* INTO f
    FROM jsonb_to_record(p_query) AS x(
        names text[], "when" boolean, spans datemultirange, phrases text[], without text[],
        said_by text, after date, before date, tags text[], fusion text
    );

    v_ranked := f.fusion = 'rank';
    v_textual := cardinality(f.phrases) > 0 OR cardinality(f.without) > 0;

    SELECT max(s.agent_key), array_agg(s.scope_id), array_agg(s.last_seq), array_agg(DISTINCT s.language),
           array_agg(s.scope_id) FILTER (WHERE s.last_seq > c_large), coalesce(sum(s.last_seq), 0)
    INTO v_agent, v_scopes, v_sizes, v_languages, v_large, v_total
    FROM memory.visible_scopes(p_agent, p_user, p_session, p_as_of) v
    JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id
    WHERE s.is_active;
    IF v_agent IS NULL THEN
        RETURN;
    END IF;
    IF p_as_of IS NOT NULL THEN
        SELECT array_agg(k.scope_id), array_agg(k.seq), array_agg(k.status), array_agg(k.pending)
        INTO v_known_scopes, v_known_seqs, v_known_statuses, v_known_pending
        FROM memory.known_at(p_agent, p_user, p_session, p_as_of) k
        WHERE k.status NOT IN ('quarantined', 'superseded', 'evicted');
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
            SELECT s.scope_id, s.size FROM unnest(v_scopes, v_sizes) s(scope_id, size) WHERE s.size > c_large
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
                          AND t.status IN ('quarantined', 'superseded', 'evicted')
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
                v_chosen := ARRAY(
                    SELECT x.g
                    FROM (
                        SELECT a.g, sum(a.here) OVER (ORDER BY a.here, a.g) AS looked_up
                        FROM unnest(v_shares) WITH ORDINALITY a(here, g)
                        WHERE a.g = ANY (v_g)
                    ) x
                    WHERE x.looked_up <= c_large
                );
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
            SELECT o.scope_id, o.seq, o.session_id, o.language, o.search, o.created_at, o.content
            FROM memory.observations o
            WHERE memory.search_tokens(o.scope_id, o.search) && v_tokens
        ), newest AS (
            SELECT o.scope_id, o.seq, o.session_id, o.language, o.search, o.created_at, o.content
            FROM unnest(v_newest) n(scope_id)
            CROSS JOIN LATERAL (
                SELECT o.*
                FROM memory.observations o
                WHERE o.agent_key = v_agent AND o.scope_id = n.scope_id
                ORDER BY o.seq DESC
                LIMIT c_large
            ) o
        ), hit AS (
            SELECT o.scope_id, o.seq, coalesce('s' || o.session_id, 'o' || o.seq) AS line, length(o.search) AS length,
                   strpos(o.content, '?') > 0 OR strpos(o.content, U&'\FF1F') > 0 AS asks, (
                SELECT bit_or(1::bigint << (t.g - 1))
                FROM unnest(v_query_g, v_query_language, v_query) t(g, language, query)
                WHERE t.language = o.language AND o.search @@ t.query
            ) AS mask
            FROM (TABLE found UNION ALL TABLE newest) o
            LEFT JOIN LATERAL (  -- by its key, whatever the planner thinks of the table's size
                SELECT t.status, t.verification
                FROM memory.observation_states t
                WHERE t.agent_key = v_agent AND t.scope_id = o.scope_id AND t.seq = o.seq
                LIMIT 1
            ) t ON true
            WHERE o.scope_id = ANY (v_scopes)
              AND CASE
                  WHEN p_as_of IS NULL THEN coalesce(t.status, 'active') NOT IN ('quarantined', 'superseded', 'evicted')
                  ELSE (o.scope_id, o.seq) IN (
                      SELECT k.scope_id, k.seq FROM unnest(v_known_scopes, v_known_seqs) k(scope_id, seq)
                  )
              END
        )
        SELECT array_agg(h.scope_id), array_agg(h.seq), array_agg(h.line), array_agg(h.mask), array_agg(h.length),
               array_agg(h.asks), avg(h.length)
        INTO v_hit_scopes, v_hit_seqs, v_hit_lines, v_hit_masks, v_hit_lengths, v_hit_asks, v_average
        FROM hit h
        WHERE h.mask IS NOT NULL;

        v_idf := ARRAY(
            SELECT ln(1 + (greatest(v_total, x.df) - x.df + 0.5) / (x.df + 0.5))
            FROM (
                SELECT g.g, greatest(v_common[g.g], count(m.mask)) AS df
                FROM generate_series(1, v_terms) g(g)
                LEFT JOIN unnest(v_hit_masks) m(mask) ON m.mask >> (g.g - 1) & 1 = 1
                GROUP BY g.g
            ) x
            ORDER BY x.g
        );
        -- What each hit's own words come to.
        v_hit_words := ARRAY(
            SELECT i.idf * 1.6 / (1 + 0.6 * (0.6 + 0.4 * h.length / v_average))
            FROM unnest(v_hit_masks, v_hit_lengths) WITH ORDINALITY h(mask, length, n)
            JOIN (
                SELECT m.mask, sum(v_idf[g.g] ORDER BY g.g) AS idf
                FROM (SELECT DISTINCT unnest(v_hit_masks)) m(mask)
                JOIN generate_series(1, v_terms) g(g) ON m.mask >> (g.g - 1) & 1 = 1
                GROUP BY m.mask
            ) i ON i.mask = h.mask
            ORDER BY h.n
        );
    END IF;
    IF p_vector IS NOT NULL AND (w.vector > 0 OR w.rank > 0) THEN
        v_asked := to_regprocedure(
            'memory.similar(text, text, text, timestamptz, text, real[], integer, bigint[], integer[])'
        );
        IF v_asked IS NOT NULL AND has_function_privilege(v_asked, 'EXECUTE') THEN
            EXECUTE 'SELECT array_agg(s.scope_id), array_agg(s.seq), array_agg(s.standing), array_agg(s.place)'
                ' FROM memory.similar($1, $2, $3, $4, $5, $6, $7, $8, $9) s'
            INTO v_near_scopes, v_near_seqs, v_near_standings, v_near_places
            USING p_agent, p_user, p_session, p_as_of, p_model, p_vector, c_whole, v_hit_scopes, v_hit_seqs;
        END IF;
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
    v_whole := CASE WHEN v_all OR v_dated OR v_total <= c_wholly THEN c_whole ELSE 0 END;
    v_wholes := ARRAY(
        SELECT s.scope_id
        FROM unnest(v_scopes, v_sizes) s(scope_id, size)
        WHERE s.size <= v_whole
          AND (v_all OR v_dated OR coalesce(s.scope_id = ANY (v_hit_scopes || v_near_scopes), false))
    );

    RETURN QUERY
    WITH hit AS MATERIALIZED (
        SELECT h.*
        FROM unnest(v_hit_scopes, v_hit_seqs, v_hit_lines, v_hit_masks, v_hit_words, v_hit_asks)
            AS h(scope_id, seq, line, mask, words, asks)
    ), near AS MATERIALIZED (
        SELECT n.*
        FROM unnest(v_near_scopes, v_near_seqs, v_near_standings, v_near_places) AS n(scope_id, seq, standing, place)
    ), looked_at AS (
        SELECT o.scope_id, o.seq, coalesce('s' || o.session_id, 'o' || o.seq) AS line, h.mask, h.words, h.asks,
               n.standing, n.place AS nearness,
               v_all OR v_dated AND (
                   (o.observed_at AT TIME ZONE 'UTC')::date <@ f.spans OR coalesce(o.dates && f.spans, false)
               ) AS asked_for
        FROM unnest(v_scopes, v_sizes) s(scope_id, size)
        CROSS JOIN LATERAL (  -- by its key, whatever the planner thinks of how many there are
            SELECT o.scope_id, o.seq, o.session_id, o.observed_at, o.dates
            FROM memory.observations o
            WHERE o.agent_key = v_agent AND o.scope_id = s.scope_id
            ORDER BY o.seq
            LIMIT c_whole
        ) o
        LEFT JOIN hit h ON h.scope_id = o.scope_id AND h.seq = o.seq
        LEFT JOIN near n ON n.scope_id = o.scope_id AND n.seq = o.seq
        WHERE s.scope_id = ANY (v_wholes)
        UNION ALL
        SELECT o.scope_id, o.seq, coalesce('s' || o.session_id, 'o' || o.seq), h.mask, h.words, h.asks,
               x.standing, x.place,
               v_all OR v_dated AND (
                   (o.observed_at AT TIME ZONE 'UTC')::date <@ f.spans OR coalesce(o.dates && f.spans, false)
               )
        FROM (
            SELECT b.scope_id, b.seq::bigint + a.distance AS seq
            FROM (
                SELECT h.scope_id, h.seq
                FROM hit h
                WHERE h.scope_id <> ALL (v_wholes)
                ORDER BY h.words DESC, h.seq DESC, h.scope_id
                LIMIT c_best
            ) b
            CROSS JOIN generate_series(-c_around, c_around) a(distance)
            UNION
            SELECT s.scope_id, n.seq
            FROM unnest(v_scopes, v_sizes) s(scope_id, size)
            CROSS JOIN generate_series(s.size - c_whole, s.size) n(seq)
            WHERE s.scope_id <> ALL (v_wholes) AND v_terms = 0 AND (v_all OR v_dated)
            UNION
            SELECT n.scope_id, n.seq
            FROM near n
            WHERE n.scope_id <> ALL (v_wholes) AND n.place <= c_near AND n.standing > 0
        ) n
        CROSS JOIN LATERAL (
            SELECT o.scope_id, o.seq, o.session_id, o.observed_at, o.dates
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
               around AS (line RANGE BETWEEN c_around PRECEDING AND c_around FOLLOWING)
    ), admitted AS MATERIALIZED (
        SELECT *
        FROM place p
        WHERE p.mask IS NOT NULL OR p.asked IS NOT NULL OR p.asked_for OR bit_count(p.around::bit(64)) >= 2
           OR p.nearness <= c_near AND p.standing > 0
    ), session AS MATERIALIZED (
        SELECT h.scope_id, h.line, bit_or(h.mask) AS mask FROM hit h GROUP BY h.scope_id, h.line
    ), worth AS MATERIALIZED (
        SELECT m.mask, sum(v_idf[g.g] ORDER BY g.g) AS idf
        FROM (SELECT a.around FROM admitted a UNION SELECT s.mask FROM session s) m(mask)
        JOIN generate_series(1, v_terms) g(g) ON m.mask >> (g.g - 1) & 1 = 1
        GROUP BY m.mask
    ), part AS (
        SELECT a.scope_id, a.seq, o.observed_at, a.mask, bit_count(a.around::bit(64)) >= 2 AS surrounded, a.nearness,
               w.vector * coalesce(a.standing, 0) AS vector,
               coalesce(a.words, 0) AS words, w.asked * coalesce(a.asked, 0) AS asked, w.near * a.near AS near,
               w."window" * coalesce(around.idf, 0) AS "window", w.session * coalesce(in_session.idf, 0) AS session,
               CASE WHEN cardinality(v_named) = 1 AND x.first_name = v_named[1] THEN w.speaker ELSE 0 END AS speaker,
               CASE WHEN f."when" AND o.dates IS NOT NULL THEN w."when" ELSE 0 END AS "when",
               CASE WHEN NOT v_dated THEN 0
                    WHEN x.day <@ f.spans OR coalesce(o.dates && f.spans, false) THEN w.date
                    ELSE 0 END AS date,
               CASE WHEN right(rtrim(split_part(o.content, ' [', 1)), 1) IN ('?', U&'\FF1F', U&'\061F') THEN 0
                    ELSE w.substance * least(length(o.search), 20) / 20 END AS substance,
               CASE WHEN w.recency = 0 THEN 0
                    ELSE w.recency * power(0.5, greatest(extract(epoch FROM coalesce(p_as_of, p_at) - o.observed_at), 0) / 2592000) END
                   AS recency,
               CASE WHEN t.verification = 'disputed' THEN w.disputed ELSE 0 END
                   + CASE WHEN t.status = 'archived' THEN w.archived ELSE 0 END AS taken_off
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
            SELECT t.status, t.verification
            FROM memory.observation_states t
            WHERE t.agent_key = v_agent AND t.scope_id = o.scope_id AND t.seq = o.seq
            LIMIT 1
        ) t ON true
        LEFT JOIN worth around ON around.mask = a.around
        LEFT JOIN session ON session.scope_id = a.scope_id AND session.line = a.line
        LEFT JOIN worth in_session ON in_session.mask = session.mask
        WHERE (
                a.mask IS NOT NULL
                OR CASE
                    WHEN p_as_of IS NULL THEN coalesce(t.status, 'active') NOT IN ('quarantined', 'superseded', 'evicted')
                    ELSE (o.scope_id, o.seq) IN (
                        SELECT k.scope_id, k.seq FROM unnest(v_known_scopes, v_known_seqs) k(scope_id, seq)
                    )
                END
            )
          AND (NOT v_textual OR memory.holds_text(o.language, o.search, f.phrases, f.without))
          AND (f.said_by IS NULL OR lower(o.speaker) = f.said_by OR x.first_name = f.said_by)
          AND (f.after IS NULL OR x.day >= f.after)
          AND (f.before IS NULL OR x.day < f.before)
          AND o.tags @> f.tags
    ), best AS MATERIALIZED (
        SELECT r.*, CASE WHEN v_ranked THEN r.by_words + r.by_vector ELSE r.lends END AS score
        FROM (
            SELECT p.*, (x.total + p.vector) * (1 - p.taken_off) AS lends, (x.total + p.vector) * -p.taken_off AS lifecycle,
                   1.0::double precision / (c_rank + rank() OVER (ORDER BY x.total * (1 - p.taken_off) DESC)) AS by_words,
                   coalesce(w.rank / (c_rank + p.nearness), 0) AS by_vector
            FROM part p
            CROSS JOIN LATERAL (
                SELECT p.words + p.asked + p.near + p."window" + p.session + p.speaker + p."when" + p.date + p.substance
                       + p.recency AS total
            ) x
        ) r
        ORDER BY score DESC, r.observed_at DESC, r.scope_id, r.seq
        LIMIT p_limit
    )
    SELECT o.scope_id, o.seq, s.kind, s.owner, s.name, o.content, o.observed_at, o.created_at, o.source_kind, o.session_id,
           o.speaker, o.message_ids, o.run_id, o.category, o.kind, o.confidence, o.importance, o.sensitivity,
           o.no_propagate, o.confidential, coalesce(t.verification, 'unverified'), t.superseded_by, o.fact_key,
           (  -- as memory.observation_version, which would be called row by row
               SELECT count(*)::integer + 1
               FROM memory.events e
               WHERE e.agent_key = v_agent AND e.scope_id = o.scope_id AND e.seq = o.seq
           ), o.tags, o.metadata,
           coalesce(k.status, t.status, 'active'),
           coalesce(
               k.pending,
               o.lane = 'absorb' AND coalesce(t.status, 'active') = 'active'
                   AND (o.seq > s.done_seq OR coalesce(t.repend, false))
           ),
           v_agent, b.score, b.lends,
           CASE WHEN p_explain THEN jsonb_build_object(
               'mask', b.mask, 'admitted', CASE
                   WHEN b.mask <> 0 THEN 'words' WHEN b.asked > 0 THEN 'asked' WHEN b.date > 0 THEN 'date'
                   WHEN v_all THEN 'all' WHEN b.surrounded THEN 'window' ELSE 'vector' END,
               'parts', CASE WHEN v_ranked THEN jsonb_build_object('text', b.by_words, 'vector', b.by_vector) ELSE
               jsonb_build_object(
                   'words', b.words, 'asked', b.asked, 'near', b.near, 'window', b."window", 'session', b.session,
                   'speaker', b.speaker, 'when', b."when", 'date', b.date, 'substance', b.substance,
                   'recency', b.recency, 'vector', b.vector, 'lifecycle', b.lifecycle
               ) END
           ) END
    FROM best b
    CROSS JOIN LATERAL (
        SELECT o.*
        FROM memory.observations o
        WHERE o.agent_key = v_agent AND o.scope_id = b.scope_id AND o.seq = b.seq
        LIMIT 1
    ) o
    CROSS JOIN LATERAL (
        SELECT s.* FROM memory.scopes s WHERE s.agent_key = v_agent AND s.scope_id = b.scope_id LIMIT 1
    ) s
    LEFT JOIN LATERAL (
        SELECT t.*
        FROM memory.observation_states t
        WHERE t.agent_key = v_agent AND t.scope_id = b.scope_id AND t.seq = b.seq
        LIMIT 1
    ) t ON true
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
"""

SEARCH_MESSAGES = r"""
-- memory.search_messages(…): the messages that a principal may see and a query finds, best first. One row per message, of
-- those of memory.retained_messages. As memory.search_observations finds and ranks; a user's messages are one space of
-- the text index, whichever of their sessions they stand in, and neighbours are those of the same session. A message
-- inherits from the observations that were found and made of it: p_lent_scores, by session and number. `observations` are
-- the ids of those that the principal may see.
CREATE OR REPLACE FUNCTION memory.search_messages(
    p_agent text, p_user text, p_session text, p_query jsonb, p_limit bigint, p_days double precision, p_at timestamptz,
    p_as_of timestamptz, p_explain boolean, p_lent_sessions text[], p_lent_numbers bigint[],
    p_lent_scores double precision[]
)
RETURNS TABLE (
    session_id text, number bigint, message_id text, role text, user_id text, speaker text, content text,
    said_at timestamptz, observations text[], score double precision, explanation jsonb
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    c_whole CONSTANT integer := 1000;
    c_large CONSTANT integer := 2000;
    c_best CONSTANT integer := 300;
    c_around CONSTANT integer := 5;
    w record;
    f record;
    v_agent bigint;
    v_total double precision;
    v_owners bigint[];
    v_g integer[];
    v_language text[];
    v_lexeme text[];
    v_query tsquery[];
    v_query_g integer[];
    v_query_language text[];
    v_terms integer;
    v_common double precision[];
    v_chosen integer[];
    v_tokens bigint[];
    v_hit_sessions text[];
    v_hit_numbers bigint[];
    v_hit_masks bigint[];
    v_hit_lengths integer[];
    v_hit_asks boolean[];
    v_hit_speakers text[];
    v_hit_words double precision[];
    v_average double precision;
    v_idf double precision[];
    v_named text[];
    v_dated boolean;
    v_textual boolean;
    v_all boolean;
BEGIN
    SELECT x.* INTO w
    FROM jsonb_to_record(p_query -> 'weights') AS x(
        asked float8, near float8, "window" float8, session float8, speaker float8, date float8,
        substance float8, recency float8
    );
    SELECT x.* INTO f
    FROM jsonb_to_record(p_query) AS x(
        names text[], spans datemultirange, phrases text[], without text[], said_by text,
        after date, before date, tags text[], outside text
    );
    IF cardinality(f.tags) > 0 THEN
        RETURN;  -- messages have none
    END IF;
    v_textual := cardinality(f.phrases) > 0 OR cardinality(f.without) > 0;
    v_dated := NOT isempty(f.spans);

    SELECT max(v.agent_key), coalesce(sum(s.last_number), 0), array_agg(DISTINCT hashtextextended(v.owner, v.agent_key))
    INTO v_agent, v_total, v_owners
    FROM memory.visible_sessions(p_agent, p_user, p_as_of) v
    JOIN memory.sessions s ON s.agent_key = v.agent_key AND s.session_id = v.session_id;
    IF v_agent IS NULL THEN
        RETURN;
    END IF;

    SELECT array_agg(t.g), array_agg(t.language), array_agg(t.lexeme)
    INTO v_g, v_language, v_lexeme
    FROM memory.query_lexemes(p_query -> 'terms', ARRAY(
        SELECT coalesce(a.settings ->> 'language', p_query ->> 'language') FROM memory.agents a WHERE a.agent_key = v_agent
        UNION
        SELECT s.language
        FROM memory.visible_scopes(p_agent, p_user, p_session, p_as_of) v
        JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id
    ), '{}') t;
    SELECT array_agg(t.g), array_agg(t.language), array_agg(t.query)
    INTO v_query_g, v_query_language, v_query
    FROM memory.lexeme_queries(v_g, v_language, v_lexeme) t;
    v_terms := coalesce((SELECT max(g) FROM unnest(v_g) g), 0);

    IF v_terms > 0 THEN
        v_common := array_fill(0::double precision, ARRAY[v_terms]);
        v_chosen := v_g;
        IF v_total > c_large THEN
            -- How common each word is, from the newest messages of the newest sessions; never none.
            WITH sample AS MATERIALIZED (
                SELECT m.language, m.search
                FROM (
                    SELECT v.session_id, s.last_number
                    FROM memory.visible_sessions(p_agent, p_user, p_as_of) v
                    JOIN memory.sessions s ON s.agent_key = v.agent_key AND s.session_id = v.session_id
                    ORDER BY s.last_activity_at DESC
                    LIMIT 25
                ) v
                CROSS JOIN LATERAL (
                    SELECT m.language, m.search
                    FROM memory.retained_messages(p_agent, p_user, p_days, p_at, p_as_of) m
                    WHERE m.agent_key = v_agent AND m.session_id = v.session_id
                    ORDER BY m.number DESC
                    LIMIT 25
                ) m
            )
            SELECT array_agg(x.found * v_total ORDER BY x.g)
            INTO v_common
            FROM (
                SELECT g.g, (count(m.language) + 0.5) / ((SELECT count(*) FROM sample) + 1.0) AS found
                FROM generate_series(1, v_terms) g(g)
                LEFT JOIN unnest(v_query_g, v_query_language, v_query) t(g, language, query) ON t.g = g.g
                LEFT JOIN sample m ON m.language = t.language AND m.search @@ t.query
                GROUP BY g.g
            ) x;
            v_chosen := ARRAY(
                SELECT x.g
                FROM (
                    SELECT a.g, sum(a.here) OVER (ORDER BY a.here, a.g) AS looked_up
                    FROM unnest(v_common) WITH ORDINALITY a(here, g)
                    WHERE a.g = ANY (v_g)
                ) x
                WHERE x.looked_up <= c_large
            );
        END IF;
        v_tokens := ARRAY(
            SELECT DISTINCT hashtextextended(t.lexeme, o.owner)
            FROM unnest(v_owners) o(owner)
            CROSS JOIN unnest(v_g, v_lexeme) t(g, lexeme)
            WHERE t.g = ANY (v_chosen)
        );

        WITH found AS MATERIALIZED (
            SELECT m.session_id, m.number
            FROM memory.messages m
            WHERE memory.search_tokens(hashtextextended(m.owner, m.agent_key), m.search) && v_tokens
              AND m.content IS NOT NULL
        ), newest AS MATERIALIZED (
            SELECT m.session_id, m.number
            FROM (
                SELECT v.session_id, s.last_number,
                       sum(s.last_number) OVER (ORDER BY s.last_activity_at DESC, s.session_id) - s.last_number AS before
                FROM memory.visible_sessions(p_agent, p_user, p_as_of) v
                JOIN memory.sessions s ON s.agent_key = v.agent_key AND s.session_id = v.session_id
                WHERE cardinality(v_chosen) = 0
            ) v
            JOIN memory.messages m
                ON m.agent_key = v_agent AND m.session_id = v.session_id AND m.number > v.last_number - c_large
            WHERE v.before < c_large
        ), hit AS (
            SELECT m.session_id, m.number, length(m.search) AS length,
                   strpos(m.content, '?') > 0 OR strpos(m.content, U&'\FF1F') > 0 AS asks,
                   split_part(lower(m.speaker), ' ', 1) AS first_name, (
                SELECT bit_or(1::bigint << (t.g - 1))
                FROM unnest(v_query_g, v_query_language, v_query) t(g, language, query)
                WHERE t.language = m.language AND m.search @@ t.query
            ) AS mask
            FROM (
                SELECT f.*  -- of those of the same owner, first what lies in a session of the principal's
                FROM found f
                WHERE f.session_id IN (
                    SELECT v.session_id FROM memory.visible_sessions(p_agent, p_user, p_as_of) v
                )
                UNION ALL
                TABLE newest
            ) h
            CROSS JOIN LATERAL (
                SELECT m.*
                FROM memory.retained_messages(p_agent, p_user, p_days, p_at, p_as_of) m
                WHERE m.agent_key = v_agent AND m.session_id = h.session_id AND m.number = h.number
                LIMIT 1
            ) m
        )
        SELECT array_agg(h.session_id), array_agg(h.number), array_agg(h.mask), array_agg(h.length), array_agg(h.asks),
               array_agg(h.first_name), avg(h.length)
        INTO v_hit_sessions, v_hit_numbers, v_hit_masks, v_hit_lengths, v_hit_asks, v_hit_speakers, v_average
        FROM hit h
        WHERE h.mask IS NOT NULL;

        -- A name of somebody who speaks there says who said it, not what.
        v_named := ARRAY(SELECT DISTINCT n FROM unnest(v_hit_speakers) n WHERE n = ANY (f.names));
        IF cardinality(v_named) > 0 THEN
            v_hit_masks := ARRAY(
                SELECT nullif(m.mask & ~coalesce((
                    SELECT bit_or(1::bigint << (t.g::integer - 1))
                    FROM jsonb_array_elements(p_query -> 'terms') WITH ORDINALITY t(term, g)
                    WHERE t.term -> 'words' ->> 0 = ANY (v_named)
                ), 0), 0)
                FROM unnest(v_hit_masks) WITH ORDINALITY m(mask, n)
                ORDER BY m.n
            );
        END IF;
        v_idf := ARRAY(
            SELECT ln(1 + (greatest(v_total, x.df) - x.df + 0.5) / (x.df + 0.5))
            FROM (
                SELECT g.g, greatest(v_common[g.g], count(m.mask)) AS df
                FROM generate_series(1, v_terms) g(g)
                LEFT JOIN unnest(v_hit_masks) m(mask) ON m.mask >> (g.g - 1) & 1 = 1
                GROUP BY g.g
            ) x
            ORDER BY x.g
        );
        v_hit_words := ARRAY(
            SELECT i.idf * 1.6 / (1 + 0.6 * (0.6 + 0.4 * h.length / v_average))
            FROM unnest(v_hit_masks, v_hit_lengths) WITH ORDINALITY h(mask, length, n)
            LEFT JOIN (
                SELECT m.mask, sum(v_idf[g.g] ORDER BY g.g) AS idf
                FROM (SELECT DISTINCT unnest(v_hit_masks)) m(mask)
                JOIN generate_series(1, v_terms) g(g) ON m.mask >> (g.g - 1) & 1 = 1
                GROUP BY m.mask
            ) i ON i.mask = h.mask
            ORDER BY h.n
        );
    END IF;
    v_all := v_terms = 0 AND NOT v_dated AND (f.said_by IS NOT NULL OR f.after IS NOT NULL OR f.before IS NOT NULL);

    RETURN QUERY
    WITH hit AS MATERIALIZED (
        SELECT h.*
        FROM unnest(v_hit_sessions, v_hit_numbers, v_hit_masks, v_hit_words, v_hit_asks)
            AS h(session_id, number, mask, words, asks)
        WHERE h.mask IS NOT NULL
    ), lent AS MATERIALIZED (
        SELECT l.session_id, l.number, max(l.score) AS score
        FROM unnest(p_lent_sessions, p_lent_numbers, p_lent_scores) l(session_id, number, score)
        GROUP BY l.session_id, l.number
    ), looked_at AS (
        SELECT n.session_id, n.number, n.asked_for, h.mask, h.words, h.asks, l.score AS lent
        FROM (
            SELECT u.session_id, u.number, bool_or(u.asked_for) AS asked_for
            FROM (
                SELECT b.session_id, b.number + a.distance AS number, false AS asked_for
                FROM (SELECT h.* FROM hit h ORDER BY h.words DESC, h.session_id, h.number LIMIT c_best) b
                CROSS JOIN generate_series(-c_around, c_around) a(distance)
                UNION ALL
                SELECT l.session_id, l.number, true FROM lent l
                UNION ALL
                SELECT m.session_id, m.number, true
                FROM (
                    SELECT v.session_id, s.last_number, sum(s.last_number) OVER (
                        ORDER BY s.last_activity_at DESC, s.session_id
                    ) - s.last_number AS before
                    FROM memory.visible_sessions(p_agent, p_user, p_as_of) v
                    JOIN memory.sessions s ON s.agent_key = v.agent_key AND s.session_id = v.session_id
                    WHERE v_all OR v_dated
                ) v
                JOIN memory.messages m
                    ON m.agent_key = v_agent AND m.session_id = v.session_id AND m.number > v.last_number - c_whole
                WHERE v.before < c_whole
                  AND (v_all OR (m.said_at AT TIME ZONE 'UTC')::date <@ f.spans)
            ) u
            GROUP BY u.session_id, u.number
        ) n
        LEFT JOIN hit h ON h.session_id = n.session_id AND h.number = n.number
        LEFT JOIN lent l ON l.session_id = n.session_id AND l.number = n.number
    ), place AS (
        SELECT l.*, coalesce(bit_or(l.mask) OVER around, 0) AS around,
               CASE WHEN lag(l.asks) OVER line THEN lag(l.words) OVER line END AS asked,
               coalesce(lag(l.words, 2) OVER line, 0) + coalesce(lead(l.words, 2) OVER line, 0) AS near
        FROM looked_at l
        WINDOW line AS (PARTITION BY l.session_id ORDER BY l.number),
               around AS (line RANGE BETWEEN c_around PRECEDING AND c_around FOLLOWING)
    ), admitted AS MATERIALIZED (
        SELECT *
        FROM place p
        WHERE p.mask IS NOT NULL OR p.asked IS NOT NULL OR p.asked_for OR bit_count(p.around::bit(64)) >= 2
    ), session AS MATERIALIZED (
        SELECT h.session_id, bit_or(h.mask) AS mask FROM hit h GROUP BY h.session_id
    ), worth AS MATERIALIZED (
        SELECT m.mask, sum(v_idf[g.g] ORDER BY g.g) AS idf
        FROM (SELECT a.around FROM admitted a UNION SELECT s.mask FROM session s) m(mask)
        JOIN generate_series(1, v_terms) g(g) ON m.mask >> (g.g - 1) & 1 = 1
        GROUP BY m.mask
    ), part AS (
        SELECT p.session_id, p.number, m.message_id, m.role, m.user_id, m.speaker, m.content, m.said_at, p.mask,
               coalesce(p.words, 0) AS words, w.asked * coalesce(p.asked, 0) AS asked, w.near * p.near AS near,
               w."window" * coalesce(around.idf, 0) AS "window", w.session * coalesce(in_session.idf, 0) AS session,
               CASE WHEN cardinality(v_named) = 1 AND x.first_name = v_named[1] THEN w.speaker ELSE 0 END AS by_speaker,
               CASE WHEN NOT v_dated THEN 0
                    WHEN x.day <@ f.spans THEN w.date
                    ELSE 0 END AS date,
               CASE WHEN right(rtrim(split_part(m.content, ' [', 1)), 1) IN ('?', U&'\FF1F', U&'\061F') THEN 0
                    ELSE w.substance * least(length(m.search), 20) / 20 END AS substance,
               CASE WHEN w.recency = 0 THEN 0
                    ELSE w.recency * power(0.5, greatest(extract(epoch FROM coalesce(p_as_of, p_at) - m.said_at), 0) / 2592000) END AS recency,
               coalesce(p.lent, 0) AS source
        FROM admitted p
        CROSS JOIN LATERAL (
            SELECT m.*
            FROM memory.retained_messages(p_agent, p_user, p_days, p_at, p_as_of) m
            WHERE m.agent_key = v_agent AND m.session_id = p.session_id AND m.number = p.number
            LIMIT 1
        ) m
        CROSS JOIN LATERAL (
            SELECT split_part(lower(m.speaker), ' ', 1) AS first_name, (m.said_at AT TIME ZONE 'UTC')::date AS day
        ) x
        LEFT JOIN worth around ON around.mask = p.around
        LEFT JOIN session ON session.session_id = p.session_id
        LEFT JOIN worth in_session ON in_session.mask = session.mask
        WHERE (NOT v_textual OR memory.holds_text(m.language, m.search, f.phrases, f.without))
          AND (f.outside IS NULL OR m.session_id <> f.outside)
          AND (
              p_as_of IS NOT NULL
              OR NOT coalesce((  -- what was made of it, and no longer counts, it would say again
                  SELECT bool_and(coalesce(t.status, 'active') = 'superseded')
                  FROM memory.evidence e
                  LEFT JOIN memory.observation_states t
                      ON t.agent_key = e.agent_key AND t.scope_id = e.scope_id AND t.seq = e.seq
                  WHERE e.agent_key = v_agent AND e.session_id = m.session_id AND e.number = m.number
              ), false)
          )
          AND (f.said_by IS NULL OR lower(m.speaker) = f.said_by OR x.first_name = f.said_by)
          AND (f.after IS NULL OR x.day >= f.after)
          AND (f.before IS NULL OR x.day < f.before)
    ), best AS MATERIALIZED (
        SELECT p.*, p.words + p.asked + p.near + p."window" + p.session + p.by_speaker + p.date + p.substance + p.recency
               + p.source AS score
        FROM part p
        ORDER BY score DESC, p.said_at DESC, p.session_id, p.number
        LIMIT p_limit
    )
    SELECT b.session_id, b.number, b.message_id, b.role, b.user_id, b.speaker, b.content, b.said_at,
           ARRAY(
               SELECT 'o' || e.scope_id || '-' || e.seq
               FROM memory.evidence e
               JOIN memory.visible_scopes(p_agent, p_user, p_session, p_as_of) v
                   ON v.agent_key = e.agent_key AND v.scope_id = e.scope_id
               WHERE e.agent_key = v_agent AND e.session_id = b.session_id AND e.number = b.number
                 AND (p_as_of IS NULL OR e.created_at <= p_as_of)
               GROUP BY e.scope_id, e.seq
               ORDER BY e.scope_id, e.seq
           ),
           b.score,
           CASE WHEN p_explain THEN jsonb_build_object(
               'mask', b.mask, 'admitted', CASE
                   WHEN b.mask <> 0 THEN 'words' WHEN b.asked > 0 THEN 'asked' WHEN b.source > 0 THEN 'source'
                   WHEN b.date > 0 THEN 'date' WHEN v_all THEN 'all' ELSE 'window' END,
               'parts', jsonb_build_object(
                   'words', b.words, 'asked', b.asked, 'near', b.near, 'window', b."window", 'session', b.session,
                   'speaker', b.by_speaker, 'date', b.date, 'substance', b.substance, 'recency', b.recency,
                   'source', b.source
               )
           ) END
    FROM best b
    ORDER BY b.score DESC, b.said_at DESC, b.session_id, b.number;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.search_messages(
    text, text, text, jsonb, bigint, double precision, timestamptz, timestamptz, boolean, text[], bigint[],
    double precision[]
) FROM PUBLIC;

COMMENT ON FUNCTION memory.search_messages(
    text, text, text, jsonb, bigint, double precision, timestamptz, timestamptz, boolean, text[], bigint[],
    double precision[]
) IS 'The messages that a user of an agent may see and a query finds, best first; one row per message.';
"""

SEARCH = """
-- memory.search(…): what a query finds for a principal, both arms in one round trip. One row per observation (arm
-- `observation`), at most p_limit of them, and one per message (arm `message`), at most p_messages, each arm best first; what
-- only the other arm has is null. A message inherits a share of the scores of the observations found that were made of it.
-- p_query is what memory_sql.ranking.Query.to_json makes, p_days as in memory.retention_start. p_as_of: of what was known at
-- that moment. p_vector: the query's, of the embedding model p_model; null: words alone count.
CREATE OR REPLACE FUNCTION memory.search(
    p_agent text, p_user text, p_session text, p_query jsonb, p_limit bigint, p_messages bigint, p_days double precision,
    p_at timestamptz, p_as_of timestamptz, p_explain boolean, p_vector real[], p_model text
)
RETURNS TABLE (
    scope_id bigint, seq integer, scope_kind text, owner text, name text, content text, observed_at timestamptz,
    created_at timestamptz, source_kind text, session_id text, speaker text, message_ids text[], run_id bigint,
    category text, kind text, confidence real, importance real, sensitivity text, no_propagate boolean,
    confidential boolean, verification text, superseded_by integer, fact_key text, version integer, tags text[],
    own_metadata jsonb, status text, pending boolean, arm text, score double precision, explanation jsonb,
    number bigint, role text, user_id text, observations text[]
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    c_lending CONSTANT integer := 20;
    v_share double precision := p_query -> 'weights' ->> 'source';
BEGIN
    IF p_messages = 0 THEN
        RETURN QUERY
        SELECT o.scope_id, o.seq, o.scope_kind, o.owner, o.name, o.content, o.observed_at, o.created_at, o.source_kind,
               o.session_id, o.speaker, o.message_ids, o.run_id, o.category, o.kind, o.confidence, o.importance,
               o.sensitivity, o.no_propagate, o.confidential, o.verification, o.superseded_by, o.fact_key, o.version, o.tags,
               o.own_metadata, o.status, o.pending, 'observation', o.score, o.explanation, NULL::bigint, NULL::text,
               NULL::text, NULL::text[]
        FROM memory.search_observations(
            p_agent, p_user, p_session, p_query, p_limit, p_at, p_as_of, p_explain, p_vector, p_model
        ) o;
        RETURN;
    END IF;
    RETURN QUERY
    WITH found AS MATERIALIZED (
        SELECT o.*
        FROM memory.search_observations(
            p_agent, p_user, p_session, p_query, greatest(p_limit, c_lending), p_at, p_as_of, p_explain, p_vector,
            p_model
        ) WITH ORDINALITY o
    ), lent AS MATERIALIZED (
        SELECT array_agg(e.session_id) AS sessions, array_agg(e.number) AS numbers, array_agg(v_share * o.lends) AS scores
        FROM found o
        JOIN memory.evidence e ON e.agent_key = o.agent_key AND e.scope_id = o.scope_id AND e.seq = o.seq
        WHERE e.number IS NOT NULL AND v_share > 0
    )
    SELECT o.scope_id, o.seq, o.scope_kind, o.owner, o.name, o.content, o.observed_at, o.created_at, o.source_kind,
           o.session_id, o.speaker, o.message_ids, o.run_id, o.category, o.kind, o.confidence, o.importance,
           o.sensitivity, o.no_propagate, o.confidential, o.verification, o.superseded_by, o.fact_key, o.version, o.tags,
           o.own_metadata, o.status, o.pending, 'observation', o.score, o.explanation, NULL::bigint, NULL::text,
           NULL::text, NULL::text[]
    FROM found o
    WHERE o.ordinality <= p_limit
    UNION ALL
    SELECT NULL, NULL, NULL, NULL, NULL, m.content, m.said_at, NULL, NULL,
           m.session_id, m.speaker, ARRAY[m.message_id], NULL, NULL, NULL, NULL, NULL,
           NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
           NULL, NULL, NULL, 'message', m.score, m.explanation, m.number, m.role,
           m.user_id, m.observations
    FROM lent l
    CROSS JOIN LATERAL memory.search_messages(
        p_agent, p_user, p_session, p_query, p_messages, p_days, p_at, p_as_of, p_explain, l.sessions, l.numbers, l.scores
    ) m;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.search(
    text, text, text, jsonb, bigint, bigint, double precision, timestamptz, timestamptz, boolean, real[], text
) FROM PUBLIC;

COMMENT ON FUNCTION memory.search(
    text, text, text, jsonb, bigint, bigint, double precision, timestamptz, timestamptz, boolean, real[], text
) IS 'What a query finds for a user of an agent, each arm best first; one row per observation or message.';
"""

SEARCH_BEFORE = """
-- memory.search(agent, user, session, query, limit): the observations that match, among those that the principal may see,
-- best first. One row per observation. `p_query` is for websearch_to_tsquery. Every text is searched in its own language
-- and once without one, as its search vector was made; the query is parsed once for each language, not for each row.
-- Row-level policies don't stand between it and the tables: under one `@@`, which isn't leakproof, may not be asked before
-- the policy, and no text index is used. It runs as its owner and asks memory.visible_scopes itself.
CREATE OR REPLACE FUNCTION memory.search(p_agent text, p_user text, p_session text, p_query text, p_limit bigint)
RETURNS TABLE (
    scope_id bigint, seq integer, scope_kind text, owner text, name text, content text, observed_at timestamptz,
    created_at timestamptz, source_kind text, session_id text, speaker text, message_ids text[], run_id bigint,
    category text, kind text, confidence real, importance real, sensitivity text, no_propagate boolean,
    confidential boolean, verification text, superseded_by integer, fact_key text, version integer, tags text[],
    own_metadata jsonb, status text, pending boolean, score real
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH wanted AS MATERIALIZED (
        SELECT l.language,
               websearch_to_tsquery(l.language::regconfig, p_query) || websearch_to_tsquery('simple'::regconfig, p_query)
                   AS query
        FROM (
            SELECT DISTINCT s.language
            FROM memory.visible_scopes(p_agent, p_user, p_session) v
            JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id
        ) l
    )
    SELECT o.scope_id, o.seq, s.kind, s.owner, s.name, o.content, o.observed_at, o.created_at, o.source_kind, o.session_id,
           o.speaker, o.message_ids, o.run_id, o.category, o.kind, o.confidence, o.importance, o.sensitivity,
           o.no_propagate, o.confidential, coalesce(t.verification, 'unverified'), t.superseded_by, o.fact_key,
           memory.observation_version(o.agent_key, o.scope_id, o.seq), o.tags, o.metadata, coalesce(t.status, 'active'),
           o.lane = 'absorb' AND coalesce(t.status, 'active') = 'active'
               AND (o.seq > s.done_seq OR coalesce(t.repend, false)),
           ts_rank(o.search, w.query)
    FROM memory.visible_scopes(p_agent, p_user, p_session) v
    JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id
    JOIN memory.observations o ON o.agent_key = s.agent_key AND o.scope_id = s.scope_id
    JOIN wanted w ON w.language = o.language
    LEFT JOIN memory.observation_states t ON t.agent_key = o.agent_key AND t.scope_id = o.scope_id AND t.seq = o.seq
    WHERE o.search @@ w.query
      AND coalesce(t.status, 'active') NOT IN ('quarantined', 'superseded')
      AND s.is_active
    ORDER BY ts_rank(o.search, w.query) DESC, o.observed_at DESC, o.scope_id, o.seq
    LIMIT p_limit;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.search(text, text, text, text, bigint) FROM PUBLIC;

COMMENT ON FUNCTION memory.search(text, text, text, text, bigint) IS
    'The observations that a user of an agent may see and that match, best first; one row per observation.';
"""

VISIBLE_SCOPES = """
-- memory.visible_scopes(agent, user, session, as_of): what a principal may see. One row per scope. The only place where
-- that is decided; every read joins it. A null user or agent sees nothing. A group is visible to whoever is a member now
-- (and was one at as_of); a session's scope to those who took part in it. Inactive scopes are included. A user is all the
-- ids that they go by (memory.user_ids). The agent and the owners are looked up once a query, whatever it begins with.
CREATE OR REPLACE FUNCTION memory.visible_scopes(
    p_agent text, p_user text, p_session text DEFAULT NULL, p_as_of timestamptz DEFAULT NULL
) RETURNS TABLE (agent_key bigint, scope_id bigint)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT s.agent_key, s.scope_id
    FROM memory.scopes s
    WHERE s.agent_key = (SELECT a.agent_key FROM memory.agents a WHERE a.agent_id = p_agent)
      AND p_user IS NOT NULL
      AND s.owner = ANY (
          ARRAY['c', 'a']
          || ARRAY(
              SELECT 'u:' || i.user_id
              FROM memory.agents a
              CROSS JOIN LATERAL memory.user_ids(a.agent_key, p_user, p_as_of) i
              WHERE a.agent_id = p_agent
          )
          || ARRAY(
              SELECT g.owner
              FROM memory.agents a
              CROSS JOIN LATERAL memory.user_ids(a.agent_key, p_user, p_as_of) i
              CROSS JOIN LATERAL (  -- by their keys, in this order, whatever the planner thinks of how many there are
                  SELECT m.scope_id
                  FROM memory.members m
                  WHERE m.agent_key = a.agent_key AND m.user_id = i.user_id AND m.left_at IS NULL
                    AND (p_as_of IS NULL OR m.joined_at <= p_as_of)
                  OFFSET 0
              ) m
              CROSS JOIN LATERAL (
                  SELECT g.owner
                  FROM memory.scopes g
                  WHERE g.agent_key = a.agent_key AND g.scope_id = m.scope_id AND g.kind = 'group'
                  LIMIT 1
              ) g
              WHERE a.agent_id = p_agent
          )
          || ARRAY(
              SELECT 's:' || t.session_id
              FROM memory.agents a
              JOIN memory.sessions t ON t.agent_key = a.agent_key
              WHERE a.agent_id = p_agent AND t.session_id = p_session
                AND t.participants && ARRAY(SELECT i.user_id FROM memory.user_ids(a.agent_key, p_user, p_as_of) i)
          )
      )
$$;

COMMENT ON FUNCTION memory.visible_scopes(text, text, text, timestamptz) IS
    'The scopes that a user of an agent may see; one row per scope.';
"""

VISIBLE_SCOPES_BEFORE = """
-- memory.visible_scopes(agent, user, session, as_of): what a principal may see. One row per scope. The only place where
-- that is decided; every read joins it. A null user or agent sees nothing. A group is visible to whoever is a member now
-- (and was one at as_of); a session's scope to those who took part in it. Inactive scopes are included. A user is all the
-- ids that they go by (memory.user_ids).
CREATE OR REPLACE FUNCTION memory.visible_scopes(
    p_agent text, p_user text, p_session text DEFAULT NULL, p_as_of timestamptz DEFAULT NULL
) RETURNS TABLE (agent_key bigint, scope_id bigint)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT s.agent_key, s.scope_id
    FROM memory.agents a
    JOIN memory.scopes s ON s.agent_key = a.agent_key
    WHERE a.agent_id = p_agent
      AND p_user IS NOT NULL
      AND s.owner = ANY (
          ARRAY['c', 'a']
          || ARRAY(SELECT 'u:' || i.user_id FROM memory.user_ids(a.agent_key, p_user, p_as_of) i)
          || ARRAY(
              SELECT g.owner
              FROM memory.user_ids(a.agent_key, p_user, p_as_of) i
              JOIN memory.members m ON m.agent_key = a.agent_key AND m.user_id = i.user_id
              JOIN memory.scopes g ON g.agent_key = m.agent_key AND g.scope_id = m.scope_id
              WHERE m.left_at IS NULL AND g.kind = 'group'
                AND (p_as_of IS NULL OR m.joined_at <= p_as_of)
          )
          || ARRAY(
              SELECT 's:' || t.session_id
              FROM memory.sessions t
              WHERE t.agent_key = a.agent_key AND t.session_id = p_session
                AND t.participants && ARRAY(SELECT i.user_id FROM memory.user_ids(a.agent_key, p_user, p_as_of) i)
          )
      )
$$;

COMMENT ON FUNCTION memory.visible_scopes(text, text, text, timestamptz) IS
    'The scopes that a user of an agent may see; one row per scope.';
"""

MADE = (
    "search(text, text, text, jsonb, bigint, bigint, double precision, timestamptz, timestamptz, boolean, real[], text)",
    "search_messages(text, text, text, jsonb, bigint, double precision, timestamptz, timestamptz, boolean, text[], bigint[],"
    " double precision[])",
    "search_observations(text, text, text, jsonb, bigint, timestamptz, timestamptz, boolean, real[], text)",
    "holds_text(text, tsvector, text[], text[])",
    "lexeme_queries(integer[], text[], text[])",
    "query_lexemes(jsonb, text[], text[])",
    "search_tokens(bigint, tsvector)",
)


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '3s'")
    op.execute("DROP FUNCTION memory.search(text, text, text, text, bigint)")
    for script in (
        SEARCH_TOKENS, QUERY_LEXEMES, LEXEME_QUERIES, HOLDS_TEXT, VISIBLE_SCOPES, SEARCH_OBSERVATIONS, SEARCH_MESSAGES, SEARCH
    ):  # fmt: skip
        run(script)
    op.create_index(
        "observations_search_idx",
        "observations",
        [sa.text("memory.search_tokens(scope_id, search)")],
        schema="memory",
        postgresql_using="gin",
        postgresql_with={"fastupdate": "off"},
        if_not_exists=True,
    )
    op.create_index(
        "messages_search_idx",
        "messages",
        [sa.text("memory.search_tokens(hashtextextended(owner, agent_key), search)")],
        schema="memory",
        postgresql_using="gin",
        postgresql_with={"fastupdate": "off"},
        postgresql_where=sa.text("content IS NOT NULL"),
    )


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '3s'")
    op.drop_index("messages_search_idx", "messages", schema="memory")
    op.drop_index("observations_search_idx", "observations", schema="memory")
    for signature in MADE:
        op.execute(f"DROP FUNCTION memory.{signature}")
    run(VISIBLE_SCOPES_BEFORE)
    run(SEARCH_BEFORE)


def run(script: str) -> None:
    """asyncpg prepares one statement at a time; each begins at the start of a line, bodies are indented."""
    for statement in re.split(r";\s*\n(?=(?:CREATE|COMMENT|REVOKE) )", script.strip().removesuffix(";")):
        op.execute(statement)
