CREATE OR REPLACE FUNCTION memory.jaccard(p_one text[], p_other text[]) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(avg((x.topic = ANY (p_one) AND x.topic = ANY (p_other))::integer), 0)::float8
    FROM (SELECT unnest(p_one) AS topic UNION SELECT unnest(p_other)) x
$$;
COMMENT ON FUNCTION memory.jaccard IS 'How much two sets of words have in common, 0 to 1.';
