-- memory.substance(points, content, search, full_words): what a text gains by what it says: a question nothing, a statement the
-- more the longer it is, up to so many words. Computed where it is asked for, as part of that query.
CREATE OR REPLACE FUNCTION memory.substance(
    p_points double precision, p_content text, p_search tsvector, p_full_words integer
)
RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE WHEN right(rtrim(split_part(p_content, ' [', 1)), 1) IN ('?', U&'\FF1F', U&'\061F') THEN 0
                ELSE p_points * least(length(p_search), p_full_words) / p_full_words END
$$;

COMMENT ON FUNCTION memory.substance(double precision, text, tsvector, integer) IS
    'What a text gains by what it says.';

-- memory.recency(points, at, said_at, half_days): what a text gains by being new: all points at that moment, half of them so
-- many days ago.
CREATE OR REPLACE FUNCTION memory.recency(
    p_points double precision, p_at timestamptz, p_said_at timestamptz, p_half_days integer
)
RETURNS double precision
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT CASE WHEN p_points = 0 THEN 0
                ELSE p_points * power(0.5, greatest(extract(epoch FROM p_at - p_said_at), 0) / (p_half_days * 86400)) END
$$;

COMMENT ON FUNCTION memory.recency(double precision, timestamptz, timestamptz, integer) IS
    'What a text gains by being new.';
