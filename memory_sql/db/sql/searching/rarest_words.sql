-- memory.rarest_words(common, g, most): which words of a query to look up: the rarest, as long as all of them together are
-- found at most so often. `common`: in how many texts each word stands, by its number; `g`: the numbers that count.
CREATE OR REPLACE FUNCTION memory.rarest_words(p_common double precision[], p_g integer[], p_most integer) RETURNS integer[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN ARRAY(
        SELECT x.g
        FROM (
            SELECT a.g, sum(a.common) OVER (ORDER BY a.common, a.g) AS looked_up
            FROM unnest(p_common) WITH ORDINALITY a(common, g)
            WHERE a.g = ANY (p_g)
        ) x
        WHERE x.looked_up <= p_most
    );
END
$$;

COMMENT ON FUNCTION memory.rarest_words(double precision[], integer[], integer) IS
    'The words of a query that are looked up, since all of them together are found at most so often.';
