CREATE OR REPLACE FUNCTION memory.held_contradictions(p_agent bigint)
RETURNS TABLE (
    scope_id bigint, version integer, newer integer, older integer, says text, instead_of text, still text, too_much boolean,
    created_at timestamptz
)
LANGUAGE sql STABLE AS $$
    SELECT c.scope_id, c.version, n.seq, o.seq, n.content, o.content, i.still, coalesce(i.held, false), c.created_at
    FROM memory.consolidations c
    CROSS JOIN LATERAL jsonb_to_recordset(c.contradictions) AS i (
        newer integer, older integer, still text, held boolean, asks boolean
    )
    JOIN memory.observations n ON n.agent_key = c.agent_key AND n.scope_id = c.scope_id AND n.seq = i.newer
    JOIN memory.observations o ON o.agent_key = c.agent_key AND o.scope_id = c.scope_id AND o.seq = i.older
    LEFT JOIN memory.observation_states t ON t.agent_key = c.agent_key AND t.scope_id = c.scope_id AND t.seq = o.seq
    WHERE c.agent_key = p_agent AND c.live
      AND (c.contradictions @> '[{"held": true}]'::jsonb OR c.contradictions @> '[{"asks": true}]'::jsonb)
      AND CASE WHEN i.held THEN memory.in_use(t.status)
          ELSE i.asks AND t.status = 'superseded' AND t.superseded_by = n.seq END
      AND NOT EXISTS (
          SELECT FROM memory.observation_states u
          WHERE u.agent_key = c.agent_key AND u.scope_id = c.scope_id AND u.seq = n.seq AND NOT memory.in_use(u.status)
      )
      AND NOT EXISTS (
          SELECT FROM memory.events e
          WHERE e.agent_key = c.agent_key AND e.scope_id = c.scope_id AND e.seq = o.seq AND e.kind = 'review'
            AND e.version = c.version
      )
$$;
COMMENT ON FUNCTION memory.held_contradictions IS
    'The held contradictions that wait for a person; one row per contradiction.';
