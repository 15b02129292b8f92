-- memory.speakers_of(agent_key, scope_id): who speaks in the observations of a scope, unless withdrawn, by name, whoever spoke last first; at
-- most the 50 of memory.newest_speakers. It is what scopes.speakers says; to be asked where observations go.
CREATE OR REPLACE FUNCTION memory.newest_speakers(p_names text[]) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ARRAY(
        SELECT n.name
        FROM unnest(p_names) WITH ORDINALITY AS n (name, place) WHERE n.name IS NOT NULL
        GROUP BY n.name
        ORDER BY min(n.place)
        LIMIT 50
    )
$$;

COMMENT ON FUNCTION memory.newest_speakers IS 'The first 50 of these names, each once.';

CREATE OR REPLACE FUNCTION memory.speakers_of(p_agent bigint, p_scope bigint) RETURNS text[]
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT memory.newest_speakers(ARRAY(
        SELECT o.speaker
        FROM memory.observations o
        LEFT JOIN memory.observation_states t ON t.agent_key = p_agent AND t.scope_id = p_scope AND t.seq = o.seq
        WHERE o.agent_key = p_agent AND o.scope_id = p_scope AND o.speaker IS NOT NULL AND t.withdrawn_by IS NULL
        GROUP BY o.speaker
        ORDER BY max(o.seq) DESC
    ))
$$;

COMMENT ON FUNCTION memory.speakers_of IS 'Who speaks in the observations of a scope, whoever spoke last first.';
