-- memory.lifecycle(…, at): how alive an observation is at that time: heat (how much it is in use), decay (how far it has
-- faded) and value (what keeping it at hand is worth), each 0 to 1. One row. It computes only: nothing is read, nothing
-- stored. B.4 of the sources has the formulas; memory_sql/lifecycle/scores.py says the same in Python. Null: not known,
-- never, or nobody said so; p_feedback is -1 to 1.
CREATE OR REPLACE FUNCTION memory.lifecycle(
    p_confidence double precision, p_importance double precision, p_uses bigint, p_last_used_at timestamptz,
    p_said_at timestamptz, p_created_at timestamptz, p_feedback double precision, p_verification text, p_category text,
    p_status text, p_at timestamptz
)
RETURNS TABLE (heat double precision, decay double precision, value double precision)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 1 AS $$
    SELECT h.heat,
           CASE WHEN p_status = 'archived' THEN 1 ELSE greatest(0, least(1,
               0.30::float8 * i.age + 0.25::float8 * i.idle + 0.20::float8 * (1 - i.confidence)
               + 0.10::float8 * (1 - i.feedback) + 0.15::float8 * (1 - h.heat)
           )) END,
           greatest(0, least(1,
               0.24::float8 * i.confidence + 0.26::float8 * i.used + 0.20::float8 * i.recency + 0.20::float8 * i.importance
               + 0.10::float8 * i.feedback - 0.5::float8 * i.disputed
               + CASE WHEN p_category = 'correction' THEN 0.08::float8 ELSE 0 END
               + CASE WHEN p_verification = 'confirmed' THEN 0.05::float8 ELSE 0 END
           ))
    FROM (
        SELECT CASE
                   WHEN p_confidence IS NULL THEN 0.5 WHEN p_confidence >= 0.95 THEN 1 WHEN p_confidence >= 0.70 THEN 0.8
                   WHEN p_confidence >= 0.40 THEN 0.6 ELSE 0.35
               END::float8 AS confidence,
               1 + coalesce(p_importance, 0.5) - 1 AS importance,  -- a share of the smallest numbers underflows: an error
               least(1, ln(1 + greatest(coalesce(p_uses, 0), 0)::float8) / ln(21::float8)) AS used,
               greatest(0, least(1, 1 - d.touched / 90)) AS recency,
               (coalesce(p_feedback, 0) + 1) / 2 AS feedback,
               CASE WHEN p_verification = 'disputed' THEN 0.2 ELSE 0 END::float8 AS disputed,
               greatest(0, least(1, d.said / 180)) AS age,
               greatest(0, least(1, d.used / 120)) AS idle
        FROM (  -- days; what never happened counts as a year ago
            SELECT coalesce(extract(epoch FROM p_at - coalesce(p_last_used_at, p_said_at, p_created_at)) / 86400, 365)::float8 AS touched,
                   coalesce(extract(epoch FROM p_at - coalesce(p_said_at, p_created_at)) / 86400, 365)::float8 AS said,
                   coalesce(extract(epoch FROM p_at - p_last_used_at) / 86400, 365)::float8 AS used
        ) d
    ) i
    CROSS JOIN LATERAL (
        SELECT CASE WHEN p_status = 'archived' THEN 0 ELSE greatest(0, least(1,
            0.25::float8 * i.confidence + 0.30::float8 * i.used + 0.20::float8 * i.recency + 0.15::float8 * i.importance
            + 0.10::float8 * i.feedback - i.disputed
        )) END AS heat
    ) h
$$;

COMMENT ON FUNCTION memory.lifecycle IS 'Heat, decay and value of an observation at a time, each 0 to 1; one row.';
