-- memory.held_contradictions(agent_key): the contradictions that a live version of a text held because it would have
-- superseded too much at once, and that nobody has decided yet. One row per contradiction whose two observations are both
-- in use.
CREATE OR REPLACE FUNCTION memory.held_contradictions(p_agent bigint)
RETURNS TABLE (
    scope_id bigint, version integer, newer integer, older integer, says text, instead_of text, created_at timestamptz
)
LANGUAGE sql STABLE AS $$
    SELECT c.scope_id, c.version, n.seq, o.seq, n.content, o.content, c.created_at
    FROM memory.consolidations c
    CROSS JOIN LATERAL jsonb_to_recordset(c.contradictions) AS i (newer integer, older integer, held boolean)
    JOIN memory.observations n ON n.agent_key = c.agent_key AND n.scope_id = c.scope_id AND n.seq = i.newer
    JOIN memory.observations o ON o.agent_key = c.agent_key AND o.scope_id = c.scope_id AND o.seq = i.older
    WHERE c.agent_key = p_agent AND c.live AND c.contradictions @> '[{"held": true}]'::jsonb AND i.held
      AND NOT EXISTS (
          SELECT FROM memory.observation_states t
          WHERE t.agent_key = c.agent_key AND t.scope_id = c.scope_id AND t.seq IN (n.seq, o.seq)
            AND NOT memory.in_use(t.status)
      )
      AND NOT EXISTS (
          SELECT FROM memory.events e
          WHERE e.agent_key = c.agent_key AND e.scope_id = c.scope_id AND e.seq = o.seq AND e.kind = 'review'
            AND e.version = c.version
      )
$$;

COMMENT ON FUNCTION memory.held_contradictions IS
    'The held contradictions that wait for a person; one row per contradiction.';
