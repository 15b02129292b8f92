-- The table of vectors and what asks it, in a database that is to have them; can be run again at any time. `@schema@` is
-- where the extension pgvector lies, `@dimensions@` how many numbers a vector has. A vector has length 1, and two bytes a
-- number. A vector tells of its text: it goes when its observation goes.
CREATE TABLE IF NOT EXISTS memory.observation_vectors (
    agent_key bigint NOT NULL,
    scope_id bigint NOT NULL,
    seq integer NOT NULL,
    model text NOT NULL,
    embedding @schema@.halfvec(@dimensions@) NOT NULL,
    CONSTRAINT observation_vectors_pkey PRIMARY KEY (agent_key, scope_id, seq, model),
    CONSTRAINT observation_vectors_agent_key_scope_id_seq_fkey FOREIGN KEY (agent_key, scope_id, seq)
        REFERENCES memory.observations (agent_key, scope_id, seq) ON DELETE CASCADE
);

COMMENT ON TABLE memory.observation_vectors IS 'One row per observation and embedding model: what its text means, as a vector.';
COMMENT ON COLUMN memory.observation_vectors.agent_key IS 'The agent.';
COMMENT ON COLUMN memory.observation_vectors.scope_id IS 'The scope.';
COMMENT ON COLUMN memory.observation_vectors.seq IS 'The observation''s number in the scope.';
COMMENT ON COLUMN memory.observation_vectors.model IS 'The embedding model; vectors of different models don''t compare.';
COMMENT ON COLUMN memory.observation_vectors.embedding IS 'Of length 1. Never shown: texts can be guessed from it.';

ALTER TABLE memory.observation_vectors ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS service ON memory.observation_vectors;
CREATE POLICY service ON memory.observation_vectors USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
DROP POLICY IF EXISTS users ON memory.observation_vectors;
CREATE POLICY users ON memory.observation_vectors FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);

-- memory.similar(…): the observations nearest to a vector of a model, of those that a principal may see: p_limit of them,
-- and those of p_scopes and p_seqs beside. One row per observation. `standing`: how many standard deviations its
-- similarity (cosine) lies above the mean of all that were compared; 0: at the mean or below. `place`: 1 for the nearest,
-- null for those beside. What no search finds has no place, what was superseded only with p_superseded, save as of a moment
-- in the past, which the caller has to look after. A vector of another number of dimensions finds nothing. All that the principal may see are compared,
-- one by one, by their key: an index over everybody's vectors (HNSW) finds too few of one scope.
CREATE OR REPLACE FUNCTION memory.similar(
    p_agent text, p_user text, p_conversation text, p_as_of timestamptz, p_model text, p_vector real[], p_limit integer,
    p_scopes bigint[], p_seqs integer[], p_superseded boolean
)
RETURNS TABLE (scope_id bigint, seq integer, standing double precision, place bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_query @schema@.halfvec;
    v_agent bigint;
    v_visible bigint[];
BEGIN
    IF coalesce(cardinality(p_vector), 0) <> @dimensions@ THEN
        RETURN;
    END IF;
    v_query := p_vector::@schema@.halfvec;
    SELECT max(s.agent_key), array_agg(s.scope_id)
    INTO v_agent, v_visible
    FROM memory.visible_scopes(p_agent, p_user, p_conversation, p_as_of) v
    JOIN memory.scopes s ON s.agent_key = v.agent_key AND s.scope_id = v.scope_id
    WHERE s.is_active;

    RETURN QUERY
    WITH compared AS MATERIALIZED (
        SELECT v.scope_id, v.seq, -(v.embedding OPERATOR(@schema@.<#>) v_query) AS similarity
        FROM unnest(v_visible) s(scope_id)
        CROSS JOIN LATERAL (  -- by its key, whatever the planner thinks of how many there are
            SELECT e.scope_id, e.seq, e.embedding
            FROM memory.observation_vectors e
            WHERE e.agent_key = v_agent AND e.scope_id = s.scope_id AND e.model = p_model
            OFFSET 0
        ) v
    ), spread AS MATERIALIZED (
        SELECT avg(c.similarity) AS mean, nullif(stddev_pop(c.similarity), 0) AS deviation FROM compared c
    ), nearest AS MATERIALIZED (
        SELECT c.scope_id, c.seq, c.similarity
        FROM (SELECT c.* FROM compared c ORDER BY c.similarity DESC) c
        LEFT JOIN LATERAL (
            SELECT t.status
            FROM memory.observation_states t
            WHERE t.agent_key = v_agent AND t.scope_id = c.scope_id AND t.seq = c.seq
            LIMIT 1
        ) t ON true
        WHERE p_as_of IS NOT NULL OR memory.is_sought(t.status, p_superseded)
        ORDER BY c.similarity DESC
        LIMIT p_limit
    ), found AS (
        SELECT n.*, row_number() OVER (ORDER BY n.similarity DESC, n.scope_id, n.seq) AS place FROM nearest n
    )
    SELECT x.scope_id, x.seq, coalesce(greatest((x.similarity - s.mean) / s.deviation, 0), 0), x.place
    FROM (
        SELECT f.scope_id, f.seq, f.similarity, f.place FROM found f
        UNION ALL
        SELECT c.scope_id, c.seq, c.similarity, NULL
        FROM unnest(p_scopes, p_seqs) AS g(scope_id, seq)
        JOIN compared c ON c.scope_id = g.scope_id AND c.seq = g.seq
        LEFT JOIN nearest n ON n.scope_id = g.scope_id AND n.seq = g.seq
        WHERE n.seq IS NULL AND (SELECT count(*) FROM compared) > p_limit
    ) x
    CROSS JOIN spread s;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.similar(
    text, text, text, timestamptz, text, real[], integer, bigint[], integer[], boolean
) FROM PUBLIC;

COMMENT ON FUNCTION memory.similar(text, text, text, timestamptz, text, real[], integer, bigint[], integer[], boolean) IS
    'The observations nearest to a vector, of those that a user of an agent may see; one row per observation.';
