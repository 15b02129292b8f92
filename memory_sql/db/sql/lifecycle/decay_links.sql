-- memory.decay_links(agent, most, at): reduces the confidence of the links that are due, at most so many, those first that have been
-- due longest; of one agent or all. One value: how many. What is locked is left for the next time.
CREATE OR REPLACE FUNCTION memory.decay_links(p_agent text, p_most integer, p_at timestamptz) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_changed integer;
BEGIN
    UPDATE memory.links l
    SET confidence = d.confidence, charged_until = d.until
    FROM (
        SELECT l.agent_key, l.scope_id, l.seq, l.to_seq, l.kind, l.label
        FROM memory.links l
        WHERE greatest(l.created_at, l.reinforced_at, l.charged_until) < p_at - interval '7776000 seconds'
          AND (l.confidence IS NULL OR l.confidence > 0.1)
          AND (p_agent IS NULL OR l.agent_key = (SELECT a.agent_key FROM memory.agents a WHERE a.agent_id = p_agent))
        ORDER BY greatest(l.created_at, l.reinforced_at, l.charged_until)
        LIMIT p_most
        FOR NO KEY UPDATE SKIP LOCKED
    ) k
    JOIN memory.links x USING (agent_key, scope_id, seq, to_seq, kind, label)
    CROSS JOIN LATERAL memory.decayed(x.confidence, greatest(x.created_at, x.reinforced_at, x.charged_until), p_at) d
    WHERE l.agent_key = k.agent_key AND l.scope_id = k.scope_id AND l.seq = k.seq AND l.to_seq = k.to_seq
      AND l.kind = k.kind AND l.label = k.label;
    GET DIAGNOSTICS v_changed = ROW_COUNT;
    RETURN v_changed;
END
$$;

COMMENT ON FUNCTION memory.decay_links IS 'Reduces the confidence of the links that are due; one value: of how many.';

-- memory.reinforced(confidence, delta): the confidence of a link that is seen again: it gains delta, up to 1; what is no gain
-- changes nothing. Null counts as 1. The same as reinforced of memory_sql/lifecycle/links.py (B.4).
CREATE OR REPLACE FUNCTION memory.reinforced(p_confidence double precision, p_delta double precision) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT least(1, round((coalesce(p_confidence, 1) + greatest(p_delta, 0))::numeric, 9))::double precision
$$;

COMMENT ON FUNCTION memory.reinforced IS 'The confidence of a link that is seen again; one value.';

-- memory.decayed(confidence, since, at): the confidence of a link that was last seen, or charged for its age, at `since`, and up to
-- when it is charged then. In the first 90 days it loses nothing, then .1 as soon as another 90 days have begun; never below .1, and what
-- is below that stays. `until` moves on by the windows that are charged, so that charging it again, or day by day, comes to the
-- same. Null counts as 1. The same as decayed of memory_sql/lifecycle/links.py (B.4).
CREATE OR REPLACE FUNCTION memory.decayed(
    p_confidence double precision, p_since timestamptz, p_at timestamptz, OUT confidence double precision, OUT until timestamptz
)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN w.charged > 0 THEN greatest(round((c.now - 0.1 * w.charged)::numeric, 9), 0.1)::double precision ELSE p_confidence END,
           p_since + w.charged * interval '7776000 seconds'
    FROM (SELECT coalesce(p_confidence, 1) AS now, extract(epoch FROM p_at - p_since) / 7776000 AS windows) c
    CROSS JOIN LATERAL (
        SELECT greatest(least(ceil(c.windows - 1), ceil(round(((c.now - 0.1) / 0.1)::numeric, 6))), 0)::integer AS charged
    ) w
$$;

COMMENT ON FUNCTION memory.decayed IS 'The confidence of a link by its age, and up to when that counts; one row.';
