-- memory.word_points(…): what the words come to that stand in each text found, by BM25 (Robertson, Zaragoza 2009); in the order
-- of the texts. In masks each bit is a word of the query; `idf`: what each word is worth. k1 bounds what a word can count
-- for, b says how much a long text takes off. Numeric, as both are written: floats would be rounded otherwise.
CREATE OR REPLACE FUNCTION memory.word_points(
    p_masks bigint[], p_lengths integer[], p_idf double precision[], p_average double precision, p_k1 numeric, p_b numeric
)
RETURNS double precision[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
    RETURN ARRAY(
        SELECT coalesce(i.idf, 0) * (1 + p_k1) / (1 + p_k1 * (1 - p_b + p_b * h.length / p_average))
        FROM unnest(p_masks, p_lengths) WITH ORDINALITY h(mask, length, n)
        LEFT JOIN (
            SELECT m.mask, sum(p_idf[g.g] ORDER BY g.g) AS idf
            FROM (SELECT DISTINCT unnest(p_masks)) m(mask)
            JOIN generate_series(1, cardinality(p_idf)) g(g) ON m.mask >> (g.g - 1) & 1 = 1
            GROUP BY m.mask
        ) i ON i.mask = h.mask
        ORDER BY h.n
    );
END
$$;

COMMENT ON FUNCTION memory.word_points(
    bigint[], integer[], double precision[], double precision, numeric, numeric
) IS 'What the words of a query that stand in each text come to (BM25).';

-- memory.word_rarities(total, common, masks): what each word of a query is worth (IDF), by its number: the more the fewer of
-- `total` texts have it. `common`: in how many at least, by an estimate; `masks` are those of the texts found.
CREATE OR REPLACE FUNCTION memory.word_rarities(
    p_total double precision, p_common double precision[], p_masks bigint[]
)
RETURNS double precision[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
    RETURN ARRAY(
        SELECT ln(1 + (greatest(p_total, x.df) - x.df + 0.5) / (x.df + 0.5))
        FROM (
            SELECT g.g, greatest(p_common[g.g], count(m.mask)) AS df
            FROM generate_series(1, cardinality(p_common)) g(g)
            LEFT JOIN unnest(p_masks) m(mask) ON m.mask >> (g.g - 1) & 1 = 1
            GROUP BY g.g
        ) x
        ORDER BY x.g
    );
END
$$;

COMMENT ON FUNCTION memory.word_rarities(double precision, double precision[], bigint[]) IS
    'What each word of a query is worth, the rarer the more (IDF).';
