-- memory.search_messages(…): the messages that a principal may see and a query finds, best first. One row per message,
-- by its key, of those of memory.messages_since in memory.visible_conversations, which are looked up once; that is all
-- where none can have one. As memory.search_observations finds; a user's messages are one space of the text index,
-- whichever of their conversations they stand in. Where a time is named, or no word is left to look for, the `newest`
-- messages are looked at too.
-- How it ranks: BM25 of a message's own words; since it has no cues, its surroundings: an answer inherits from the turn
-- before, if that asks, and is found by it; a turn from the second before and behind, which mostly have the same speaker;
-- the words that stand within five turns, by two of which it is found;
-- whether the one who is named in the query said it (the name is then no word to look for); whether it was said in the
-- time that is named; and what the observations lend it that were found and made of it: p_lent_scores, by their keys. `observations` are the ids of those that the principal may see.
CREATE OR REPLACE FUNCTION memory.search_messages(
    p_agent text, p_user text, p_conversation text, p_query jsonb, p_limit bigint, p_days double precision, p_at timestamptz,
    p_as_of timestamptz, p_explain boolean, p_lent_scopes bigint[], p_lent_seqs integer[], p_lent_scores double precision[]
)
RETURNS TABLE (
    agent_key bigint, conversation_id text, number bigint, observations text[], score double precision,
    strength double precision, covered double precision, explanation jsonb
)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    c_around CONSTANT integer := 5;
    w record;
    f record;
    lexemes record;
    v_agent bigint;
    v_since timestamptz;
    v_aside boolean;  -- many agents have nothing that is set aside
    v_scopes bigint[];
    v_languages text[];
    v_conversations text[]; v_last_numbers bigint[]; v_times timestamptz[];
    v_recent text[]; v_recent_numbers bigint[]; v_newer bigint[];  -- the newest, and how many messages later ones have
    v_total double precision;
    v_owners text[];
    v_queries tsquery[];  -- for memory.words_held: 32 for each language
    v_common double precision[];
    v_chosen integer[];
    v_tokens bigint[];
    v_hit_conversations text[]; v_hit_numbers bigint[]; v_hit_last_numbers bigint[]; v_hit_masks bigint[]; v_hit_lengths integer[];
    v_hit_asks boolean[]; v_hit_speakers text[]; v_hit_words double precision[];
    v_average double precision;
    v_idf double precision[];
    v_named text[];
    v_dated boolean; v_textual boolean; v_fitting boolean; v_all boolean;
BEGIN
    SELECT x.* INTO f
    FROM jsonb_to_record(p_query) AS x(
        names text[], spans datemultirange, phrases text[], without text[], said_by text,
        after date, before date, tags text[], outside text, unformed boolean
    );
    IF cardinality(f.tags) > 0 OR p_query ? 'episode' THEN
        RETURN;  -- messages have neither
    END IF;
    SELECT memory.retention_start(a.settings, p_days, p_at), EXISTS (
               SELECT FROM memory.observation_states t WHERE t.agent_key = a.agent_key AND memory.is_aside(t.status)
           )
    INTO v_since, v_aside
    FROM memory.agents a
    WHERE a.agent_id = p_agent;
    SELECT max(v.agent_key), sum(v.last_number), array_agg(v.user_id),  -- distinct ones here would sort all that is visible
           array_agg(v.conversation_id), array_agg(v.last_number), array_agg(v.last_activity_at)
    INTO v_agent, v_total, v_owners, v_conversations, v_last_numbers, v_times
    FROM memory.visible_conversations(p_agent, p_user, p_as_of) v
    HAVING bool_or(
        (v.last_activity_at >= v_since OR v.text_since < v_since) AND v.text_since IS NOT NULL AND v.conversation_id IS DISTINCT FROM f.outside
        AND NOT (f.unformed AND v.last_number <= v.formed_number)
    );
    IF NOT FOUND THEN
        RETURN;
    END IF;

    SELECT x.* INTO w
    FROM jsonb_to_record(p_query -> 'weights') AS x(
        k1 float8, b float8, asked float8, near float8, "window" float8, speaker float8, said_on float8, large integer,
        newest integer, best integer
    );
    v_textual := cardinality(f.phrases) > 0 OR cardinality(f.without) > 0;
    v_dated := NOT isempty(f.spans);
    v_fitting := f.said_by IS NOT NULL OR f.after IS NOT NULL OR f.before IS NOT NULL;

    v_scopes := ARRAY(SELECT v.scope_id FROM memory.visible_scopes(p_agent, p_user, p_conversation, p_as_of) v);
    v_languages := ARRAY(
        SELECT unnest(a.languages) FROM memory.agents a WHERE a.agent_key = v_agent
        UNION SELECT unnest(s.language || s.former_languages) FROM memory.scopes s WHERE s.agent_key = v_agent AND s.scope_id = ANY (v_scopes)
    );
    SELECT array_agg(t.g) AS g, array_agg(t.language) AS languages, array_agg(t.lexeme) AS lexemes, coalesce(max(t.g), 0) AS most
    INTO lexemes
    FROM memory.query_lexemes(p_query -> 'terms', v_languages) t;  -- of a subquery it would be planned each time
    v_queries := ARRAY(
        SELECT q.query
        FROM unnest(v_languages) WITH ORDINALITY l(language, n) CROSS JOIN generate_series(1, 32) g(g)
        LEFT JOIN memory.lexeme_queries(lexemes.g, lexemes.languages, lexemes.lexemes) q USING (g, language)
        ORDER BY l.n, g.g
    );

    v_all := lexemes.most = 0 AND NOT v_dated AND v_fitting;
    IF v_total > w.large OR v_all OR v_dated THEN
        SELECT array_agg(v.conversation_id), array_agg(v.last_number), array_agg(v.newer) INTO v_recent, v_recent_numbers, v_newer
        FROM (
            SELECT v.*, sum(v.last_number) OVER (ORDER BY v.at DESC, v.conversation_id) - v.last_number AS newer
            FROM (
                SELECT v.* FROM unnest(v_conversations, v_last_numbers, v_times) v(conversation_id, last_number, at)
                WHERE v.last_number > 0 ORDER BY v.at DESC, v.conversation_id LIMIT greatest(w.large, w.newest)
            ) v
        ) v;
    END IF;

    IF lexemes.most > 0 THEN
        v_common := array_fill(0::double precision, ARRAY[lexemes.most]);
        v_chosen := lexemes.g;
        IF v_total > w.large THEN
            -- How common each word is, from the newest messages of the newest conversations; never none.
            WITH sample AS MATERIALIZED (
                SELECT memory.words_held(m.search, v_queries, m.at, lexemes.most) AS mask
                FROM (
                    SELECT v.*
                    FROM unnest(v_recent, v_recent_numbers, v_newer) v(conversation_id, last_number, newer)
                    ORDER BY v.newer, v.last_number
                    LIMIT 25
                ) v
                CROSS JOIN LATERAL (  -- not beyond the newest numbers: there may be thousands that have no text or are set aside
                    SELECT m.number, m.search, (array_position(v_languages, m.language) - 1) * 32 AS at
                    FROM memory.messages m
                    WHERE m.agent_key = v_agent AND m.conversation_id = v.conversation_id
                      AND m.number > v.last_number - 250 AND memory.is_kept(m, v_since, p_as_of)
                    ORDER BY m.number DESC
                    LIMIT 25
                ) m
                WHERE NOT (v_aside AND EXISTS (  -- as memory.messages_since
                    SELECT
                    FROM memory.evidence e
                    JOIN memory.observation_states t ON t.agent_key = e.agent_key AND t.scope_id = e.scope_id AND t.seq = e.seq
                    WHERE e.agent_key = v_agent AND e.conversation_id = v.conversation_id AND e.number = m.number
                      AND memory.is_aside(t.status) AND t.status <> 'withdrawn'
                    OFFSET 0
                ))
            )
            SELECT array_agg(x.found * v_total ORDER BY x.g)
            INTO v_common
            FROM (
                SELECT g.g, (count(m.mask) + 0.5) / ((SELECT count(*) FROM sample) + 1.0) AS found
                FROM generate_series(1, lexemes.most) g(g)
                LEFT JOIN sample m ON m.mask >> (g.g - 1) & 1 = 1
                GROUP BY g.g
            ) x;
            v_chosen := memory.rarest_words(v_common, lexemes.g, w.large);
        END IF;
        v_tokens := ARRAY(
            SELECT DISTINCT hashtextextended(t.lexeme, o.owner)
            FROM (SELECT DISTINCT hashtextextended('u:' || o.id, v_agent) AS owner FROM unnest(v_owners) o(id)) o
            CROSS JOIN unnest(lexemes.g, lexemes.lexemes) t(g, lexeme)
            WHERE t.g = ANY (v_chosen)
        );

        WITH found AS (
            SELECT m.agent_key, m.conversation_id, m.number, m.language, m.speaker, m.content, m.search
            FROM memory.messages m
            WHERE memory.search_tokens(hashtextextended(m.owner, m.agent_key), m.search) && v_tokens
              AND memory.is_kept(m, v_since, p_as_of)
            UNION ALL
            SELECT m.agent_key, m.conversation_id, m.number, m.language, m.speaker, m.content, m.search
            FROM unnest(v_recent, v_recent_numbers, v_newer) v(conversation_id, last_number, newer)
            JOIN memory.messages m
                ON m.agent_key = v_agent AND m.conversation_id = v.conversation_id AND m.number > v.last_number - w.large
            WHERE cardinality(v_chosen) = 0 AND v.newer < w.large AND memory.is_kept(m, v_since, p_as_of)
            OFFSET 0  -- by its words alone: no index of the agent is read beside
        ), heard AS (  -- others may have said it to the same owner elsewhere
            SELECT f.*, v.last_number, (array_position(v_languages, f.language) - 1) * 32 AS at
            FROM found f
            FULL JOIN unnest(v_conversations, v_last_numbers) v(conversation_id, last_number)  -- full: no nested loop can do that
                ON v.conversation_id = f.conversation_id
            OFFSET 0
        ), hit AS (
            SELECT h.conversation_id, h.number, h.last_number, length(h.search) AS length,
                   strpos(h.content, '?') > 0 OR strpos(h.content, E'\uFF1F') > 0 AS asks,
                   split_part(lower(h.speaker), ' ', 1) AS first_name,
                   nullif(memory.words_held(h.search, v_queries, h.at, lexemes.most), 0) AS mask
            FROM heard h
            WHERE h.agent_key = v_agent AND h.last_number IS NOT NULL AND NOT (v_aside AND EXISTS (  -- as memory.messages_since
                SELECT
                FROM memory.evidence e
                JOIN memory.observation_states t ON t.agent_key = e.agent_key AND t.scope_id = e.scope_id AND t.seq = e.seq
                WHERE e.agent_key = v_agent AND e.conversation_id = h.conversation_id AND e.number = h.number
                  AND memory.is_aside(t.status) AND t.status <> 'withdrawn'
                OFFSET 0  -- by its key
            ))
            OFFSET 0  -- each mask is worked out once
        )
        SELECT array_agg(h.conversation_id), array_agg(h.number), array_agg(h.last_number), array_agg(h.mask), array_agg(h.length),
               array_agg(h.asks), array_agg(h.first_name), avg(h.length)
        INTO v_hit_conversations, v_hit_numbers, v_hit_last_numbers, v_hit_masks, v_hit_lengths, v_hit_asks, v_hit_speakers, v_average
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
        SELECT r.idf INTO v_idf FROM memory.word_rarities(v_total, v_common, v_hit_masks, NULL) r;
        v_hit_words := ARRAY(
            SELECT memory.word_points(i.idf, h.length, v_average, w.k1, w.b)
            FROM unnest(v_hit_masks, v_hit_lengths) WITH ORDINALITY h(mask, length, n)
            LEFT JOIN (
                SELECT m.mask, x.words AS idf
                FROM (SELECT DISTINCT unnest(v_hit_masks)) m(mask) CROSS JOIN LATERAL memory.words_worth(m.mask, 0, v_idf) x
            ) i ON i.mask = h.mask
            ORDER BY h.n
        );
    END IF;

    RETURN QUERY
    WITH candidate AS MATERIALIZED (
        SELECT c.conversation_id, c.number, max(c.mask) AS mask, coalesce(max(c.words), 0) AS words, max(c.asked) AS asked,
               coalesce(sum(c.near), 0) AS near, coalesce(max(c.lent), 0) AS lent, bit_or(c.around) AS around
        FROM (
            SELECT h.conversation_id, h.number + h.distance AS number, CASE WHEN h.distance = 0 THEN h.mask END AS mask,
                   CASE WHEN h.distance = 0 THEN h.words END AS words,
                   CASE WHEN h.distance = 1 AND h.asks THEN w.asked * h.words END AS asked,
                   CASE WHEN abs(h.distance) = 2 THEN w.near * h.words END AS near, NULL AS lent, h.mask AS around
            FROM (
                SELECT h.*, generate_series(greatest(-c_around, 1 - h.number), least(c_around, h.last_number - h.number)) AS distance
                FROM unnest(v_hit_conversations, v_hit_numbers, v_hit_last_numbers, v_hit_masks, v_hit_words, v_hit_asks)
                    AS h(conversation_id, number, last_number, mask, words, asks)
                WHERE h.mask IS NOT NULL
            ) h
            UNION ALL
            SELECT e.conversation_id, e.number, NULL, NULL, NULL, NULL, l.score, NULL
            FROM unnest(p_lent_scopes, p_lent_seqs, p_lent_scores) l(scope_id, seq, score)
            JOIN memory.evidence e ON e.agent_key = v_agent AND e.scope_id = l.scope_id AND e.seq = l.seq
            WHERE e.number IS NOT NULL
            UNION ALL
            SELECT m.conversation_id, m.number, NULL, NULL, NULL, NULL, 0, NULL
            FROM unnest(v_recent, v_recent_numbers, v_newer) v(conversation_id, last_number, newer)
            JOIN memory.messages m
                ON m.agent_key = v_agent AND m.conversation_id = v.conversation_id AND m.number > v.last_number - w.newest
            WHERE (v_all OR v_dated) AND v.newer < w.newest AND memory.is_kept(m, v_since, p_as_of)
              AND (v_all OR (m.said_at AT TIME ZONE 'UTC')::date <@ f.spans)
        ) c
        GROUP BY c.conversation_id, c.number
        HAVING max(c.mask) IS NOT NULL OR max(c.asked) IS NOT NULL OR max(c.lent) IS NOT NULL
            OR bit_count(bit_or(c.around)::bit(64)) >= 2
        ORDER BY coalesce(max(c.words), 0) + coalesce(max(c.asked), 0) + coalesce(sum(c.near), 0) + coalesce(max(c.lent), 0) DESC,
                 c.conversation_id, c.number
        LIMIT CASE WHEN NOT (v_fitting OR v_textual OR v_dated) THEN greatest(w.best, p_limit) END
    ), ranked AS (  -- where the score is known before a message is read, only the best are read
        SELECT p.*, CASE
                   WHEN NOT v_dated AND coalesce(cardinality(v_named), 0) <> 1 THEN p.words + coalesce(p.asked, 0) + p.near + p."window" + p.lent
               END AS foreseen
        FROM (
            SELECT c.*, w."window" * coalesce(a.idf, 0) AS "window"
            FROM candidate c
            LEFT JOIN (
                SELECT d.around, x.words AS idf
                FROM (SELECT DISTINCT c.around FROM candidate c) d CROSS JOIN LATERAL memory.words_worth(d.around, 0, v_idf) x
            ) a ON a.around = c.around
            WHERE c.conversation_id IN (SELECT unnest(v_conversations))  -- what lent may have been heard by others alone
            OFFSET 0  -- each is worked out once
        ) p
        ORDER BY foreseen DESC
    ), part AS (
        SELECT p.*, m.said_at,
               CASE WHEN cardinality(v_named) = 1 AND x.first_name = v_named[1] THEN w.speaker ELSE 0 END AS by_speaker,
               CASE WHEN x.day <@ f.spans THEN w.said_on ELSE 0 END AS date
        FROM ranked p
        CROSS JOIN LATERAL (
            SELECT m.*
            FROM memory.messages_since(v_agent, p.conversation_id, v_since, p_as_of) m
            WHERE m.number = p.number
            LIMIT 1
        ) m
        CROSS JOIN LATERAL (
            SELECT split_part(lower(m.speaker), ' ', 1) AS first_name, (m.said_at AT TIME ZONE 'UTC')::date AS day
        ) x
        WHERE (NOT v_textual OR memory.holds_text(m.language, m.search, m.content, m.search_extra, f.phrases, f.without))
          AND (f.outside IS NULL OR m.conversation_id <> f.outside)
          AND (NOT f.unformed OR m.number > (
              SELECT s.formed_number
              FROM memory.conversations s
              WHERE s.agent_key = v_agent AND s.conversation_id = m.conversation_id
          ))
          AND (
              p_as_of IS NOT NULL
              OR NOT coalesce((  -- what was made of it, and no longer counts, it would say again
                  SELECT bool_and(coalesce(t.status, 'active') = 'superseded')
                  FROM memory.evidence e
                  LEFT JOIN memory.observation_states t
                      ON t.agent_key = e.agent_key AND t.scope_id = e.scope_id AND t.seq = e.seq
                  WHERE e.agent_key = v_agent AND e.conversation_id = m.conversation_id AND e.number = m.number
              ), false)
          )
          AND (f.said_by IS NULL OR lower(m.speaker) = f.said_by OR x.first_name = f.said_by)
          AND (f.after IS NULL OR x.day >= f.after)
          AND (f.before IS NULL OR x.day < f.before)
    ), best AS MATERIALIZED (
        SELECT p.*, p.words + coalesce(p.asked, 0) + p.near + p."window" + p.by_speaker + p.date + p.lent AS score
        FROM part p
        ORDER BY p.foreseen DESC, score DESC, p.said_at DESC, p.conversation_id, p.number
        LIMIT p_limit
    )
    SELECT v_agent, b.conversation_id, b.number,
           ARRAY(
               SELECT 'o' || e.scope_id || '-' || e.seq
               FROM memory.evidence e
               WHERE e.agent_key = v_agent AND e.conversation_id = b.conversation_id AND e.number = b.number
                 AND e.scope_id = ANY (v_scopes) AND (p_as_of IS NULL OR e.created_at <= p_as_of)
               GROUP BY e.scope_id, e.seq
               ORDER BY e.scope_id, e.seq
           ),
           b.score, b.score / ln(1 + (greatest(v_total, 1) - 0.5) / 1.5),  -- as memory.word_rarities for one of all
           coalesce((
               SELECT sum(i.idf) FILTER (WHERE b.mask >> (i.g::integer - 1) & 1 = 1) / sum(i.idf)
               FROM unnest(v_idf) WITH ORDINALITY i(idf, g)
           ), 0),
           CASE WHEN p_explain THEN jsonb_build_object(
               'mask', b.mask, 'admitted', CASE
                   WHEN b.mask <> 0 THEN 'words' WHEN b.asked > 0 THEN 'asked' WHEN b.lent > 0 THEN 'source'
                   WHEN b.date > 0 THEN 'date' WHEN v_all THEN 'all' ELSE 'window' END,
               'parts', jsonb_build_object(
                   'words', b.words, 'asked', b.asked, 'near', b.near, 'window', b."window", 'speaker', b.by_speaker,
                   'date', b.date, 'source', b.lent
               )
           ) END
    FROM best b
    ORDER BY b.score DESC, b.said_at DESC, b.conversation_id, b.number;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.search_messages FROM PUBLIC;

COMMENT ON FUNCTION memory.search_messages IS
    'The messages that a user of an agent may see and a query finds, best first; one row per message.';
