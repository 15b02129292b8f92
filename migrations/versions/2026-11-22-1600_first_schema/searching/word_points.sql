CREATE OR REPLACE FUNCTION memory.word_points(
    p_idf double precision, p_length integer, p_average double precision, p_k1 double precision, p_b double precision
)
RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT coalesce(p_idf * (1 + p_k1) / (1 + p_k1 * (1 - p_b + p_b * p_length / p_average)), 0) $$;
COMMENT ON FUNCTION memory.word_points IS 'What the words of a query that stand in a text come to (BM25).';
CREATE OR REPLACE FUNCTION memory.word_rarities(
    p_total double precision, p_common double precision[], p_masks bigint[], p_texts bigint[]
)
RETURNS TABLE (idf double precision[])
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 1
AS $$
    WITH tally AS MATERIALIZED (  -- each mask once: few texts have other words than the others
        SELECT m.mask, sum(coalesce(m.texts, 1)::double precision) AS texts
        FROM unnest(p_masks, p_texts) m(mask, texts)
        GROUP BY m.mask
    )
    SELECT ARRAY(
        SELECT ln(1 + (greatest(p_total, x.df) - x.df + 0.5) / (x.df + 0.5))
        FROM unnest(p_common) WITH ORDINALITY c(common, g)
        CROSS JOIN LATERAL (
            SELECT greatest(c.common, coalesce(sum(m.texts), 0)) AS df FROM tally m WHERE m.mask >> (c.g::integer - 1) & 1 = 1
        ) x
        ORDER BY c.g
    )
$$;
COMMENT ON FUNCTION memory.word_rarities IS 'What each word of a query is worth, the rarer the more (IDF).';
CREATE OR REPLACE FUNCTION memory.words_worth(p_mask bigint, p_cues bigint, p_idf double precision[])
RETURNS TABLE (words double precision, cues double precision)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 1
AS $$
    SELECT sum(i.idf) FILTER (WHERE p_mask >> (i.g::integer - 1) & 1 = 1),
           sum(i.idf) FILTER (WHERE p_cues >> (i.g::integer - 1) & 1 = 1)
    FROM unnest(p_idf) WITH ORDINALITY i(idf, g)
    WHERE (p_mask | p_cues) >> (i.g::integer - 1) & 1 = 1
$$;
COMMENT ON FUNCTION memory.words_worth IS 'What the words of a query that a text has are worth together; one row.';
