CREATE OR REPLACE FUNCTION memory.search_observations(
    p_agent text, p_user text, p_conversation text, p_query jsonb, p_limit bigint, p_at timestamptz, p_as_of timestamptz,
    p_explain boolean, p_vector bit varying, p_model text
)
RETURNS TABLE (
    agent_key bigint, scope_id bigint, seq integer, status text, pending boolean, score double precision,
    strength double precision, covered double precision, overtaken boolean, near boolean, explanation jsonb
)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    c_each CONSTANT integer := 16;  -- of what comes apart so many for each word,
    c_near CONSTANT integer := 500;  -- of the newest so many by meaning,
    c_newest CONSTANT integer := 20;  -- by time,
    c_gone CONSTANT integer := 10;  -- and of all these the best
    c_seeds CONSTANT integer := 7;  -- from so many of the best hits links are followed,
    c_least_seeds CONSTANT integer := 3;  -- if there are so many
    w record;
    f record;
    seen record;
    best record;
    v_gone boolean;
    lexemes record;
    v_known_scopes bigint[]; v_known_seqs integer[]; v_known_statuses text[]; v_known_pending boolean[];
    v_queries tsquery[];  -- for memory.words_held: 32 for each language
    v_near_scopes bigint[]; v_near_seqs integer[]; v_meanings double precision[]; v_close boolean[];
    v_scope record;
    v_newest bigint[] := '{}';
    v_tokens bigint[] := '{}';
    v_gone_tokens bigint[] := '{}';  -- each of which is looked up by itself
    v_looked_scopes bigint[]; v_looked text[];
    v_gone_most integer;
    v_least double precision;
    v_common double precision[];
    v_shares double precision[];
    v_chosen integer[];
    v_textual boolean; v_dated boolean; v_fitting boolean; v_all boolean;
    v_apart boolean; v_superseded boolean;
    v_cold bigint[];  -- the scopes in which something is cold
    v_hot boolean;
    v_total double precision;
    v_outside text;
BEGIN
    SELECT x.* INTO w
    FROM jsonb_to_record(p_query -> 'weights') AS x(
        k1 float8, b float8, terms float8, vector float8, date float8, disputed float8, archived float8,
        large integer, newest integer, stages jsonb, stale_hidden boolean, hot_first boolean, graph boolean
    );
    SELECT x.* INTO f
    FROM jsonb_to_record(p_query) AS x(
        spans datemultirange, phrases text[], without text[], said_by text, after date, before date, tags text[],
        scope bigint, absorbed boolean, superseded boolean, overtaken integer, outside text, elsewhere boolean, enough bigint,
        episode bigint
    );
    v_apart := f.overtaken > 0;
    v_superseded := f.superseded OR v_apart;
    v_gone_most := CASE WHEN f.superseded OR p_as_of IS NOT NULL THEN NULL WHEN v_apart THEN c_newest ELSE 0 END;
    v_outside := CASE WHEN f.elsewhere THEN f.outside END;
    SELECT max(s.agent_key) AS agent, array_agg(s.scope_id) AS scopes, array_agg(s.last_seq) AS lasts, array_agg(z.size) AS sizes,
           string_to_array(string_agg(DISTINCT array_to_string(s.language || s.former_languages, ' '), ' '), ' ') AS languages,
           coalesce(sum(s.last_seq), 0)::double precision AS total, bool_or(z.size > w.large) AS any_large, f.absorbed IS TRUE OR w.stages IS NOT NULL OR bool_or(EXISTS (
               SELECT FROM memory.observation_states t
               WHERE t.agent_key = s.agent_key AND t.scope_id = s.scope_id AND t.verification = 'disputed'
           )) AS stated  -- what stands with the observation says the rest
    INTO seen
    FROM memory.searched_scopes(p_agent, p_user, p_conversation, p_as_of, f.scope) v
    CROSS JOIN LATERAL (  -- by its key, whatever the planner thinks of how many there are
        SELECT s.* FROM memory.scopes s WHERE s.agent_key = v.agent_key AND s.scope_id = v.scope_id LIMIT 1
    ) s
    CROSS JOIN LATERAL (  -- not large either where most is gone
        SELECT CASE WHEN s.last_seq <= w.large OR v_gone_most IS NULL OR NOT EXISTS (
            SELECT FROM memory.observation_states t WHERE t.agent_key = s.agent_key AND t.scope_id = s.scope_id
        ) OR EXISTS (
            SELECT FROM memory.observations o
            WHERE o.agent_key = s.agent_key AND o.scope_id = s.scope_id AND o.standing IN ('active', 'archived')
            OFFSET w.large
        ) THEN s.last_seq ELSE w.large END AS size
    ) z
    WHERE s.is_active;
    IF seen.agent IS NULL THEN
        RETURN;
    END IF;
    v_cold := ARRAY(
        SELECT s.id
        FROM unnest(seen.scopes) s(id)
        CROSS JOIN LATERAL (  -- along the index of what is cold, however much that is
            SELECT FROM memory.observations o
            WHERE o.agent_key = seen.agent AND o.scope_id = s.id AND o.cold
            ORDER BY o.seq LIMIT 1
        ) o
    );
    v_hot := w.hot_first IS TRUE AND p_as_of IS NULL AND cardinality(v_cold) > 0;
    v_total := seen.total;
    IF v_hot THEN
        v_total := v_total - (
            SELECT count(*)
            FROM unnest(seen.scopes, seen.sizes) s(id, size)
            CROSS JOIN LATERAL (
                SELECT FROM memory.observations o
                WHERE o.agent_key = seen.agent AND o.scope_id = s.id AND o.cold
                ORDER BY o.seq OFFSET 0
            ) o
            WHERE s.size <= w.large AND s.id = ANY (v_cold)
        );
    END IF;
    IF p_as_of IS NOT NULL THEN
        SELECT coalesce(array_agg(k.scope_id), '{}'), array_agg(k.seq), array_agg(k.status), array_agg(k.pending)
        INTO v_known_scopes, v_known_seqs, v_known_statuses, v_known_pending
        FROM memory.known_at(p_agent, p_user, p_conversation, p_as_of) k
        WHERE memory.is_sought(k.status, v_superseded);
    END IF;
    SELECT array_agg(t.g) AS g, array_agg(t.language) AS languages, array_agg(t.lexeme) AS lexemes, count(*) AS found,
           max(t.g) AS most
    INTO lexemes
    FROM memory.query_lexemes(p_query -> 'terms', seen.languages) t;
    v_queries := ARRAY(
        SELECT q.query
        FROM unnest(seen.languages) WITH ORDINALITY l(language, n) CROSS JOIN generate_series(1, 32) g(g)
        LEFT JOIN memory.lexeme_queries(lexemes.g, lexemes.languages, lexemes.lexemes) q USING (g, language)
        ORDER BY l.n, g.g
    );
    IF lexemes.found > 0 THEN
        SELECT array_agg(s.id), array_agg(t.lexeme) INTO v_looked_scopes, v_looked
        FROM unnest(seen.scopes, seen.sizes) s(id, size)
        CROSS JOIN unnest(lexemes.lexemes) t(lexeme)
        WHERE s.size <= w.large;
        v_common := array_fill(0::double precision, ARRAY[lexemes.most]);
        IF seen.any_large THEN
            FOR v_scope IN SELECT s.* FROM unnest(seen.scopes, seen.sizes) s(id, size) WHERE s.size > w.large LOOP
                SELECT x.common, v_total - v_scope.size + x.size INTO v_shares, v_total
                FROM memory.words_sampled(seen.agent, v_scope.id, v_scope.size, seen.languages, v_queries, lexemes.most, v_hot) x;
                v_chosen := memory.rarest_words(v_shares, lexemes.g, w.large);
                v_common := ARRAY(
                    SELECT a.known + a.here FROM unnest(v_common, v_shares) WITH ORDINALITY a(known, here, g) ORDER BY a.g
                );
                IF cardinality(v_chosen) = 0 THEN
                    v_newest := v_newest || v_scope.id;
                END IF;
                SELECT v_looked_scopes || array_agg(v_scope.id), v_looked || array_agg(t.lexeme) INTO v_looked_scopes, v_looked
                FROM unnest(lexemes.g, lexemes.lexemes) t(g, lexeme)
                WHERE t.g = ANY (v_chosen);
            END LOOP;
        END IF;
        v_tokens := ARRAY(
            SELECT DISTINCT hashtextextended(l.lexeme, s.space)
            FROM unnest(v_looked_scopes, v_looked) l(scope, lexeme)
            CROSS JOIN LATERAL (
                SELECT l.scope AS space
                UNION ALL
                SELECT memory.search_space(l.scope, 0, 'active', true) WHERE l.scope = ANY (v_cold) AND NOT v_hot
            ) s
        );
        IF v_superseded OR p_as_of IS NOT NULL THEN
            v_gone_tokens := ARRAY(
                SELECT DISTINCT hashtextextended(l.lexeme, memory.search_space(s.id, 4096 * n.n, 'superseded', false))
                FROM unnest(seen.scopes, seen.lasts) s(id, last)
                CROSS JOIN LATERAL generate_series(
                    CASE WHEN v_gone_most IS NULL THEN 0 ELSE greatest(s.last / 4096 - 1, 0) END, s.last / 4096
                ) n(n)
                JOIN unnest(v_looked_scopes, v_looked) l(scope, lexeme) ON l.scope = s.id
                WHERE EXISTS (
                    SELECT FROM memory.observations o
                    WHERE o.agent_key = seen.agent AND o.scope_id = s.id AND o.standing = 'superseded'
                )
            );
            IF v_gone_most IS NULL THEN
                v_tokens := v_tokens || v_gone_tokens;
                v_gone_tokens := '{}';
            END IF;
        END IF;
    END IF;
    IF p_vector IS NOT NULL AND w.vector > 0 THEN
        SELECT array_agg(s.scope_id), array_agg(s.seq), array_agg(s.meaning), array_agg(s.close)
        INTO v_near_scopes, v_near_seqs, v_meanings, v_close
        FROM memory.similar(seen.agent, seen.scopes, p_model, p_vector, CASE WHEN v_gone_most > 0 THEN c_near ELSE v_gone_most END, v_known_scopes, v_known_seqs, v_hot) s;
    END IF;
    v_textual := cardinality(f.phrases) > 0 OR cardinality(f.without) > 0;
    v_dated := NOT isempty(f.spans);
    v_fitting := cardinality(f.tags) > 0 OR f.said_by IS NOT NULL OR f.after IS NOT NULL OR f.before IS NOT NULL OR f.episode IS NOT NULL;
    -- Where no word is left to look for, all that was said by somebody or fits; nothing for words that say nothing.
    v_all := lexemes.found = 0 AND NOT v_dated AND v_fitting;
    IF v_all OR v_dated THEN
        SELECT array_agg(n.scope_id), array_agg(n.seq), array_agg(n.meaning), array_agg(n.close)
        INTO v_near_scopes, v_near_seqs, v_meanings, v_close
        FROM (
            SELECT n.scope_id, n.seq, max(n.meaning) AS meaning, bool_or(n.close) AS close
            FROM (
                SELECT * FROM unnest(v_near_scopes, v_near_seqs, v_meanings, v_close)
                UNION ALL
                SELECT o.scope_id, o.seq, NULL, false
                FROM unnest(seen.scopes) s(scope_id)
                CROSS JOIN LATERAL (  -- by its key, whatever the planner thinks of how many there are
                    SELECT o.scope_id, o.seq, o.observed_at, o.said_again_at, o.dates
                    FROM memory.newest_sought(seen.agent, s.scope_id, w.newest, coalesce(v_gone_most, w.newest), v_hot) n
                    CROSS JOIN LATERAL (
                        SELECT o.* FROM memory.observations o
                        WHERE o.agent_key = seen.agent AND o.scope_id = s.scope_id AND o.seq = n.seq LIMIT 1
                    ) o
                    WHERE p_as_of IS NULL AND f.episode IS NULL
                    UNION ALL
                    SELECT o.scope_id, o.seq, o.observed_at, o.said_again_at, o.dates
                    FROM memory.observation_episodes n
                    CROSS JOIN LATERAL (
                        SELECT o.* FROM memory.observations o
                        WHERE o.agent_key = seen.agent AND o.scope_id = s.scope_id AND o.seq = n.seq LIMIT 1
                    ) o
                    WHERE p_as_of IS NULL AND n.agent_key = seen.agent AND n.episode_id = f.episode AND n.scope_id = s.scope_id
                      AND memory.is_sought(o.standing, v_superseded)
                    UNION ALL
                    SELECT k.scope_id, k.seq, o.observed_at, NULL, o.dates
                    FROM (
                        SELECT k.scope_id, k.seq FROM unnest(v_known_scopes, v_known_seqs) k(scope_id, seq)
                        WHERE k.scope_id = s.scope_id ORDER BY k.seq DESC LIMIT w.newest
                    ) k
                    CROSS JOIN LATERAL (
                        SELECT o.* FROM memory.observations o
                        WHERE o.agent_key = seen.agent AND o.scope_id = k.scope_id AND o.seq = k.seq LIMIT 1
                    ) o
                    WHERE p_as_of IS NOT NULL
                ) o
                WHERE v_all OR (o.observed_at AT TIME ZONE 'UTC')::date <@ f.spans OR coalesce(o.dates && f.spans, false)
                   OR coalesce((o.said_again_at AT TIME ZONE 'UTC')::date <@ f.spans, false)
            ) n(scope_id, seq, meaning, close)
            GROUP BY n.scope_id, n.seq
        ) n;
    END IF;
    WITH read AS (
        SELECT o.scope_id, o.seq, o.standing, o.cold, CASE WHEN p_as_of IS NULL THEN coalesce(o.said_again_at, o.observed_at) ELSE o.observed_at END AS observed_at,
               o.meaning, o.near, o.close, length(o.search) AS length,
               memory.words_held(o.search, v_queries, o.at, lexemes.most) AS mask,
               CASE WHEN w.terms > 0 AND o.cues <> '' THEN memory.words_held(o.cues, v_queries, o.at, lexemes.most) ELSE 0 END AS held,
               CASE WHEN v_dated AND (
                   (o.observed_at AT TIME ZONE 'UTC')::date <@ f.spans OR coalesce(o.dates && f.spans, false)
                   OR p_as_of IS NULL AND coalesce((o.said_again_at AT TIME ZONE 'UTC')::date <@ f.spans, false)
               ) THEN w.date ELSE 0 END AS date, (v_outside IS NULL OR o.conversation_id IS DISTINCT FROM v_outside)
                   AND (NOT (v_textual OR v_fitting) OR (
                       (NOT v_textual OR (
                           SELECT memory.holds_text(t.language, t.search, t.content, t.search_extra, f.phrases, f.without)
                           FROM memory.observations t
                           WHERE t.agent_key = seen.agent AND t.scope_id = o.scope_id AND t.seq = o.seq
                       ))
                       AND (f.said_by IS NULL OR f.said_by IN (lower(o.speaker), split_part(lower(o.speaker), ' ', 1)))
                       AND (f.after IS NULL OR (CASE WHEN p_as_of IS NULL THEN coalesce(o.said_again_at, o.observed_at) ELSE o.observed_at END AT TIME ZONE 'UTC')::date >= f.after)
                       AND (f.before IS NULL OR (o.observed_at AT TIME ZONE 'UTC')::date < f.before)
                       AND o.tags @> f.tags
                       AND (f.episode IS NULL OR EXISTS (
                           SELECT FROM memory.observation_episodes n
                           WHERE n.agent_key = seen.agent AND n.scope_id = o.scope_id AND n.seq = o.seq AND n.episode_id = f.episode
                       ))
                   )) AS fits
        FROM (
            SELECT o.*, NULL::double precision AS meaning, false AS near, false AS close,
                   (array_position(seen.languages, o.language) - 1) * 32 AS at
            FROM (
                SELECT o.scope_id, o.seq, o.language, o.search, o.cues, o.observed_at, o.said_again_at, o.conversation_id, o.dates, o.speaker, o.tags, o.standing, o.cold
                FROM memory.observations o
                WHERE memory.search_tokens(memory.search_space(o.scope_id, o.seq, o.standing, o.cold), o.search || o.cues) && v_tokens
                  AND o.standing IN ('active', 'archived', 'superseded')
                UNION ALL
                (
                    SELECT DISTINCT ON (o.scope_id, o.seq) o.*
                    FROM unnest(v_gone_tokens) t(token)
                    CROSS JOIN LATERAL (
                        SELECT o.scope_id, o.seq, o.language, o.search, o.cues, o.observed_at, o.said_again_at, o.conversation_id, o.dates, o.speaker, o.tags, o.standing, o.cold
                        FROM memory.observations o
                        WHERE memory.search_tokens(memory.search_space(o.scope_id, o.seq, o.standing, o.cold), o.search || o.cues) && ARRAY[t.token]
                          AND o.standing = 'superseded'
                        LIMIT c_each
                    ) o
                )
                UNION ALL
                SELECT o.*
                FROM (
                    SELECT s.scope_id, n.seq, true AS newest
                    FROM unnest(v_newest) s(scope_id)
                    CROSS JOIN LATERAL memory.newest_sought(seen.agent, s.scope_id, w.large, coalesce(v_gone_most, w.large), v_hot) n
                    WHERE p_as_of IS NULL
                    UNION ALL  -- also what the index has no longer, but was known then
                    SELECT k.scope_id, k.seq, k.scope_id = ANY (v_newest)
                    FROM unnest(v_known_scopes, v_known_seqs) k(scope_id, seq)
                    WHERE p_as_of IS NOT NULL
                ) n
                CROSS JOIN LATERAL (
                    SELECT o.scope_id, o.seq, o.language, o.search, o.cues, o.observed_at, o.said_again_at, o.conversation_id, o.dates, o.speaker, o.tags, o.standing, o.cold
                    FROM memory.observations o
                    WHERE o.agent_key = seen.agent AND o.scope_id = n.scope_id AND o.seq = n.seq
                      AND (n.newest OR NOT memory.is_sought(o.standing, true))
                    LIMIT 1
                ) o
                OFFSET 0  -- by its words alone: no index of scopes is read beside
            ) o
            WHERE o.scope_id = ANY (seen.scopes) AND (v_near_scopes IS NULL OR (o.scope_id, o.seq) NOT IN (
                SELECT n.scope_id, n.seq FROM unnest(v_near_scopes, v_near_seqs) n(scope_id, seq)
            ))
            UNION ALL  -- what is near is read by its key, whether or not it has a word as well
            SELECT o.*, n.meaning, true, n.close, (array_position(seen.languages, o.language) - 1) * 32
            FROM unnest(v_near_scopes, v_near_seqs, v_meanings, v_close) n(scope_id, seq, meaning, close)
            CROSS JOIN LATERAL (
                SELECT o.scope_id, o.seq, o.language, o.search, o.cues, o.observed_at, o.said_again_at, o.conversation_id, o.dates, o.speaker, o.tags, o.standing, o.cold
                FROM memory.observations o
                WHERE o.agent_key = seen.agent AND o.scope_id = n.scope_id AND o.seq = n.seq LIMIT 1
            ) o
        ) o
        OFFSET 0  -- each mask is worked out once
    ), hit AS MATERIALIZED (
        SELECT r.scope_id, r.seq, r.cold, r.observed_at, r.length, r.mask, r.held & ~r.mask AS cues, r.date, r.close, w.vector * coalesce(r.meaning, 0) AS vector,
               r.meaning IS NULL AS unmeasured, x.status, k.pending, v_apart AND x.status IS NOT DISTINCT FROM 'superseded' AS gone,
               CASE WHEN t.verification = 'disputed' THEN w.disputed ELSE 0 END
                   + CASE WHEN x.status IN ('archived', 'superseded') THEN w.archived ELSE 0 END
                   - CASE WHEN p_as_of IS NULL AND memory.in_use(x.status) THEN coalesce((w.stages ->> t.stage)::float8, 0) ELSE 0 END
                   AS taken_off,
               r.fits AND NOT (w.stale_hidden IS TRUE AND p_as_of IS NULL AND memory.is_faded(x.status, t.stage, t.policy)) AND (f.absorbed IS NOT TRUE OR memory.in_use(x.status) AND t.repend IS NOT TRUE AND r.seq <= (
                   SELECT s.done_seq FROM memory.scopes s WHERE s.agent_key = seen.agent AND s.scope_id = r.scope_id
               )) AS fits
        FROM read r
        FULL JOIN unnest(v_known_scopes, v_known_seqs, v_known_statuses, v_known_pending)  -- full: no nested loop can do that, however many they are
            k(scope_id, seq, status, pending)
            ON k.scope_id = r.scope_id AND k.seq = r.seq
        LEFT JOIN LATERAL (  -- by its key, whatever the planner thinks of the table's size
            SELECT t.verification, t.repend, t.stage, t.policy
            FROM memory.observation_states t
            WHERE t.agent_key = seen.agent AND t.scope_id = r.scope_id AND t.seq = r.seq AND seen.stated
            LIMIT 1
        ) t ON true
        CROSS JOIN LATERAL (SELECT CASE WHEN p_as_of IS NULL THEN r.standing ELSE k.status END AS status) x
        WHERE coalesce(r.near OR r.mask | r.held <> 0, false)
          AND CASE WHEN p_as_of IS NULL THEN memory.is_sought(r.standing, v_superseded) ELSE k.seq IS NOT NULL END
    ), tally AS MATERIALIZED (  -- few have other words than the others; what comes apart doesn't make its words common
        SELECT h.mask, h.cues, count(*) FILTER (WHERE NOT h.gone) AS texts, sum(h.length) FILTER (WHERE NOT h.gone) AS length,
               count(*) AS with_gone, sum(h.length) AS length_with_gone
        FROM hit h
        WHERE h.mask | h.cues <> 0
        GROUP BY h.mask, h.cues
    ), rarity AS MATERIALIZED (
        SELECT t.average, i.idf, (SELECT sum(i) FROM unnest(i.idf) i) AS whole
        FROM (
            SELECT coalesce(sum(t.length) / sum(t.texts), sum(t.length_with_gone) / sum(t.with_gone))::float8 AS average,
                   array_agg(t.mask | t.cues) AS masks, array_agg(t.texts) AS texts
            FROM tally t
        ) t
        CROSS JOIN LATERAL memory.word_rarities(v_total, v_common, t.masks, t.texts) i
    ), worth AS MATERIALIZED (
        SELECT t.mask, t.cues, r.average, x.words, x.cues AS terms, (coalesce(x.words, 0) + coalesce(x.cues, 0)) / r.whole AS covered
        FROM tally t
        CROSS JOIN rarity r
        CROSS JOIN LATERAL memory.words_worth(t.mask, t.cues, r.idf) x
    ), wordless AS MATERIALIZED (  -- the best that only its meaning brings before what has a word; `strong`: if that isn't chance
        SELECT max(y.score) FILTER (WHERE y.counts) AS score, max(y.score) FILTER (WHERE y.counts AND (h.close OR h.date > 0)) AS strong,
               bool_or(h.gone) AS any_gone
        FROM hit h
        CROSS JOIN LATERAL (
            SELECT (h.date + h.vector) * (1 - h.taken_off) AS score,
                   h.mask | h.cues = 0 AND h.vector > 0 AND h.fits AND NOT h.gone AS counts
        ) y
    ), pool AS NOT MATERIALIZED (
        SELECT h.*, coalesce(x.covered, 0) AS covered, memory.word_points(x.words, h.length, x.average, w.k1, w.b) AS words,
               w.terms * memory.word_points(x.terms, h.length, x.average, w.k1, w.b) AS terms
        FROM hit h
        FULL JOIN worth x ON x.mask = h.mask AND x.cues = h.cues
        OFFSET 0  -- it stays a full join, which no nested loop can do; each is of a hit
    )
    SELECT array_agg(c.scope_id) AS scopes, array_agg(c.seq) AS seqs, array_agg(c.observed_at) AS times,
           array_agg(c.status) AS statuses, array_agg(c.pending) AS pending, array_agg(c.gone) AS gone, array_agg(c.score) AS scores,
           array_agg(c.covered) AS covered, array_agg(c.vector > 0) AS near,
           array_agg(CASE
               WHEN c.vector > 0 AND NOT c.close AND c.covered = 0 AND c.date = 0 THEN 0  -- by chance
               WHEN c.lift > 0 THEN greatest(c.own, c.strong + c.own / 1e6) ELSE c.score END) AS strong, array_agg(CASE WHEN p_explain THEN jsonb_build_object(
               'mask', nullif(c.mask, 0), 'terms', (
                   SELECT o.terms FROM memory.observations o WHERE (o.agent_key, o.scope_id, o.seq) = (seen.agent, c.scope_id, c.seq)
               ), 'cold', c.cold, 'admitted', CASE
                   WHEN c.mask <> 0 THEN 'words' WHEN c.cues <> 0 THEN 'terms' WHEN c.date > 0 THEN 'date'
                   WHEN v_all THEN 'all' ELSE 'vector' END,
               'parts', jsonb_build_object(
                   'words', c.words, 'terms', c.terms, 'date', c.date, 'vector', c.vector + c.lift, 'lifecycle', c.total * -c.taken_off
               )
           ) END) AS explanations, bool_or(c.gone) AS any_gone,
           count(*) FILTER (WHERE NOT c.gone AND (c.covered > 0 OR c.date > 0 OR c.close OR v_all)) AS found
    INTO best
    FROM (  -- of what doesn't come apart the best
        SELECT c.*, l.lift, c.own + l.lift AS score
        FROM (
            SELECT c.*, greatest(b.score, x.fewer) AS below, greatest(b.strong, x.strong) AS strong
            FROM (
                SELECT c.*, max(c.own) FILTER (WHERE c.counts AND c.covered < c.most) OVER () AS less,
                       max(c.own) FILTER (WHERE c.counts AND c.covered < c.most AND (c.close OR c.date > 0 OR c.covered > 0)) OVER () AS less_strong
                FROM (
                    SELECT c.*, y.total, z.own, c.fits AND NOT c.gone AND c.vector > 0 AS counts,
                           max(c.covered) FILTER (WHERE c.fits AND NOT c.gone) OVER () AS most
                    FROM (
                        SELECT p.* FROM pool p WHERE NOT p.gone UNION ALL (
                            SELECT p.* FROM (SELECT FROM wordless b WHERE b.any_gone) b CROSS JOIN pool p WHERE p.gone
                            ORDER BY p.words + p.terms + p.vector DESC, p.seq DESC, p.scope_id LIMIT c_gone
                        )
                    ) c
                    CROSS JOIN LATERAL (SELECT c.words + c.terms + c.date + c.vector AS total) y
                    CROSS JOIN LATERAL (SELECT y.total * (1 - c.taken_off) AS own) z
                ) c
            ) c
            CROSS JOIN wordless b
            CROSS JOIN LATERAL (SELECT CASE WHEN c.covered = c.most THEN c.less END AS fewer, CASE WHEN c.covered = c.most THEN c.less_strong END AS strong) x
        ) c
        CROSS JOIN LATERAL (
            SELECT CASE WHEN c.unmeasured AND c.mask | c.cues <> 0 AND NOT c.gone AND c.own < c.below AND NOT EXISTS (
                SELECT FROM memory.observation_vectors e
                WHERE (e.agent_key, e.scope_id, e.seq, e.model) = (seen.agent, c.scope_id, c.seq, p_model) AND length(e.bits) = length(p_vector)
            ) THEN c.below + c.own / 1e6 - c.own ELSE 0 END AS lift  -- just above it, the more the words come to
        ) l
        WHERE c.fits
        ORDER BY c.gone DESC, score DESC, c.observed_at DESC, c.scope_id, c.seq
        LIMIT p_limit + c_gone
    ) c;
    IF v_hot AND best.found < coalesce(f.enough, p_limit) THEN
        RETURN QUERY
        SELECT * FROM memory.search_observations(
            p_agent, p_user, p_conversation, jsonb_set(p_query, '{weights,hot_first}', 'false'), p_limit, p_at, p_as_of,
            p_explain, p_vector, p_model
        );
        RETURN;
    END IF;
    IF best.any_gone THEN
        v_least := (  -- below it nothing is shown, nor lifts what took its place
            SELECT b.score FROM unnest(best.scores, best.gone) b(score, gone)
            WHERE NOT b.gone ORDER BY b.score DESC OFFSET greatest(p_limit - 1, 0) LIMIT 1
        );
        best.any_gone := EXISTS (
            SELECT FROM unnest(best.scores, best.gone) b(score, gone) WHERE b.gone AND b.score >= coalesce(v_least, 0)
        );
    END IF;
    IF best.any_gone THEN  -- each once, by the best of those whose place it took in the end, where that is better than its own
        SELECT array_agg(t.scope_id) AS scopes, array_agg(t.seq) AS seqs, array_agg(t.observed_at) AS times,
               array_agg(t.status) AS statuses, array_agg(t.pending) AS pending, array_agg(t.gone) AS gone,
               array_agg(t.score) AS scores, array_agg(t.covered) AS covered, array_agg(t.near) AS near, array_agg(t.strong) AS strong,
               array_agg(t.explanation) AS explanations, true AS any_gone
        INTO best
        FROM (
            SELECT DISTINCT ON (t.scope_id, t.seq) t.*
            FROM (
                SELECT b.*, false AS lent
                FROM unnest(
                    best.scopes, best.seqs, best.times, best.statuses, best.pending, best.gone, best.scores, best.covered, best.near,
                    best.strong, best.explanations
                ) b(scope_id, seq, observed_at, status, pending, gone, score, covered, near, strong, explanation)
                UNION ALL
                SELECT h.scope_id, h.seq, h.observed_at, h.status, NULL, false, h.score, h.covered, false, h.score,
                       CASE WHEN p_explain THEN jsonb_build_object(
                           'mask', NULL, 'terms', (
                               SELECT o.terms FROM memory.observations o WHERE (o.agent_key, o.scope_id, o.seq) = (seen.agent, h.scope_id, h.seq)
                           ), 'cold', (
                               SELECT o.cold FROM memory.observations o WHERE (o.agent_key, o.scope_id, o.seq) = (seen.agent, h.scope_id, h.seq)
                           ), 'admitted', 'successor', 'parts', jsonb_build_object('lent', h.score)
                       ) END, true
                FROM (
                    SELECT array_agg(b.scope_id) AS scopes, array_agg(b.seq) AS seqs, array_agg(b.score) AS scores,
                           array_agg(b.covered) AS covered
                    FROM unnest(best.scopes, best.seqs, best.scores, best.covered, best.gone) b(scope_id, seq, score, covered, gone)
                    WHERE b.gone AND b.score >= coalesce(v_least, 0) AND p_as_of IS NULL
                ) b
                CROSS JOIN LATERAL memory.heirs(seen.agent, b.scopes, b.seqs, b.scores, b.covered, v_outside) h
                WHERE w.stale_hidden IS NOT TRUE OR NOT EXISTS (
                    SELECT FROM memory.observation_states t
                    WHERE t.agent_key = seen.agent AND t.scope_id = h.scope_id AND t.seq = h.seq
                      AND memory.is_faded(t.status, t.stage, t.policy)
                )
            ) t
            ORDER BY t.scope_id, t.seq, t.score DESC, t.lent
        ) t
        WHERE NOT t.gone OR t.score >= coalesce(v_least, 0) AND EXISTS (
            SELECT
            FROM memory.events e
            JOIN memory.consolidations c ON c.agent_key = e.agent_key AND c.scope_id = e.scope_id AND c.version = e.version
            WHERE e.agent_key = seen.agent AND e.scope_id = t.scope_id AND e.seq = t.seq AND e.kind = 'status'
              AND c.live AND c.contradictions @> jsonb_build_array(jsonb_build_object('older', t.seq))
        );
    END IF;
    IF w.graph AND p_as_of IS NULL AND f.scope IS NULL AND NOT (v_textual OR v_fitting OR v_all) THEN
        -- What is linked with the best is ranked beside what was found: by B.4, with a score as a share of the best one's.
        WITH hit AS MATERIALIZED (
            SELECT b.*, b.score / nullif(max(b.score) OVER (), 0) AS share
            FROM unnest(
                best.scopes, best.seqs, best.times, best.statuses, best.pending, best.gone, best.scores, best.covered, best.near,
                best.strong, best.explanations
            ) b(scope_id, seq, observed_at, status, pending, gone, score, covered, near, strong, explanation)
        ), seed AS MATERIALIZED (
            SELECT h.*, row_number() OVER (ORDER BY h.score DESC, h.observed_at DESC, h.scope_id, h.seq) AS place
            FROM hit h
            WHERE NOT h.gone AND h.strong > 0 AND h.status = 'active'
            ORDER BY place LIMIT c_seeds
        ), reached AS MATERIALIZED (
            SELECT a.scope_id, a.seq, a.path, o.observed_at,
                   least(greatest(0.65 * a.activation / (1 + a.activation) + 0.35 * s.share, 0.05), 0.95) * s.score / s.share AS score
            FROM (
                SELECT array_agg(s.scope_id ORDER BY s.place) AS scopes, array_agg(s.seq ORDER BY s.place) AS seqs
                FROM seed s HAVING count(*) >= c_least_seeds
            ) b
            CROSS JOIN LATERAL memory.activated(seen.agent, b.scopes, b.seqs) a
            JOIN seed s ON s.place = a.seed
            CROSS JOIN LATERAL (
                SELECT coalesce(o.said_again_at, o.observed_at) AS observed_at
                FROM memory.observations o
                WHERE o.agent_key = seen.agent AND o.scope_id = a.scope_id AND o.seq = a.seq
                  AND (v_outside IS NULL OR o.conversation_id IS DISTINCT FROM v_outside) AND NOT (v_hot AND o.cold)
                LIMIT 1
            ) o
            WHERE w.stale_hidden IS NOT TRUE OR NOT EXISTS (
                SELECT FROM memory.observation_states t
                WHERE t.agent_key = seen.agent AND t.scope_id = a.scope_id AND t.seq = a.seq
                  AND memory.is_faded(t.status, t.stage, t.policy)
            )
        )
        SELECT array_agg(t.scope_id) AS scopes, array_agg(t.seq) AS seqs, array_agg(t.observed_at) AS times,
               array_agg(t.status) AS statuses, array_agg(t.pending) AS pending, array_agg(t.gone) AS gone,
               array_agg(t.score) AS scores, array_agg(t.covered) AS covered, array_agg(t.near) AS near, array_agg(t.strong) AS strong,
               array_agg(t.explanation) AS explanations, best.any_gone AS any_gone
        INTO best
        FROM (
            SELECT coalesce(h.scope_id, r.scope_id) AS scope_id, coalesce(h.seq, r.seq) AS seq, coalesce(h.observed_at, r.observed_at) AS observed_at,
                   coalesce(h.status, 'active') AS status, h.pending, coalesce(h.gone, false) AS gone, x.score,
                   coalesce(h.covered, 0) AS covered, coalesce(h.near, false) AS near,
                   coalesce(greatest(h.strong, CASE WHEN x.lent > 0 THEN r.score END), r.score) AS strong,
                   CASE WHEN p_explain AND x.lent > 0 THEN coalesce(h.explanation, jsonb_build_object('mask', NULL, 'terms', o.terms, 'cold', o.cold, 'admitted', 'graph'))
                       || jsonb_build_object('parts', coalesce(h.explanation -> 'parts', '{}') || jsonb_build_object('graph', x.lent), 'links', r.path)
                   ELSE h.explanation END AS explanation
            FROM hit h
            FULL JOIN reached r ON r.scope_id = h.scope_id AND r.seq = h.seq
            CROSS JOIN LATERAL (
                SELECT greatest(h.score, r.score) AS score, greatest(r.score - coalesce(h.score, 0), 0) AS lent
            ) x
            LEFT JOIN LATERAL (
                SELECT o.terms, o.cold FROM memory.observations o
                WHERE p_explain AND h.seq IS NULL AND o.agent_key = seen.agent AND o.scope_id = r.scope_id AND o.seq = r.seq
                LIMIT 1
            ) o ON true
        ) t;
    END IF;
    FOREACH v_gone IN ARRAY CASE WHEN best.any_gone THEN '{false, true}' ELSE '{false}' END::boolean[] LOOP
        RETURN QUERY
        SELECT seen.agent, b.scope_id, b.seq, CASE WHEN p_as_of IS NOT NULL THEN b.status END, b.pending, b.score,
               b.strong / ln(1 + (greatest(v_total, 1) - 0.5) / 1.5),  -- as memory.word_rarities for one of all
               b.covered, v_gone, b.near, b.explanation
        FROM unnest(
            best.scopes, best.seqs, best.times, best.statuses, best.pending, best.gone, best.scores, best.covered, best.near,
            best.strong, best.explanations
        ) b(scope_id, seq, observed_at, status, pending, gone, score, covered, near, strong, explanation)
        WHERE b.gone = v_gone
        ORDER BY b.score DESC, b.observed_at DESC, b.scope_id, b.seq
        LIMIT CASE WHEN v_gone THEN f.overtaken ELSE p_limit END;
    END LOOP;
END
$$;
REVOKE EXECUTE ON FUNCTION memory.search_observations FROM PUBLIC;
COMMENT ON FUNCTION memory.search_observations IS
    'The observations that a user of an agent may see and a query finds, best first; one row per observation.';
