CREATE OR REPLACE FUNCTION memory.shareable(p_agent bigint, p_scope bigint, p_excluded text[])
RETURNS TABLE (
    seq integer, content text, observed_at timestamptz, proposed text, category text, confidence double precision, until date
)
LANGUAGE sql STABLE AS $$
    SELECT o.seq, o.content, coalesce(o.said_again_at, o.observed_at), o.proposed, o.category, o.confidence, o.until
    FROM memory.scopes s
    JOIN memory.observations o ON o.agent_key = s.agent_key AND o.scope_id = s.scope_id
    LEFT JOIN memory.observation_states t ON t.agent_key = o.agent_key AND t.scope_id = o.scope_id AND t.seq = o.seq
    LEFT JOIN memory.conversations c ON c.agent_key = o.agent_key AND c.conversation_id = o.conversation_id
    WHERE s.agent_key = p_agent AND s.scope_id = p_scope AND s.kind IN ('individual', 'group') AND s.is_active
      AND o.seq <= s.done_seq AND o.lane = 'absorb'
      AND t.repend IS NOT TRUE
      AND memory.in_use(t.status)
      AND coalesce(t.verification, 'unverified') <> 'disputed'
      AND o.categories <@ '{contact,location}'::text[] AND o.sensitivity <> 'sensitive' AND NOT o.no_propagate AND NOT o.confidential
      AND c.excluded IS NOT TRUE
      AND NOT EXISTS (  -- a group's, made of what a member said
          SELECT FROM memory.lineage l
          JOIN memory.observations m ON m.agent_key = l.agent_key AND m.scope_id = l.source_scope_id AND m.seq = l.source_seq
          JOIN memory.conversations x ON x.agent_key = m.agent_key AND x.conversation_id = m.conversation_id
          WHERE l.agent_key = o.agent_key AND l.scope_id = o.scope_id AND l.seq = o.seq AND x.excluded
      )
      AND NOT (
          s.kind = 'individual' AND EXISTS (
              SELECT FROM unnest(o.subjects) x
              WHERE memory.person(p_agent, x) IS DISTINCT FROM memory.person(p_agent, substr(s.owner, 3))
          )
      )
      AND (
          cardinality(p_excluded) = 0
          OR NOT EXISTS (
              SELECT FROM (
                  SELECT b.person FROM memory.people_behind(p_agent, ARRAY[p_scope], ARRAY[o.seq], 0) b
                  UNION ALL
                  SELECT memory.person(p_agent, substr(s.owner, 3)) WHERE s.kind = 'individual'
              ) behind
              WHERE behind.person IN (SELECT memory.person(p_agent, x) FROM unnest(p_excluded) x)
          )
      )
      AND memory.trust(p_agent, p_scope, o.seq) >= 2
$$;
COMMENT ON FUNCTION memory.shareable IS
    'The observations of a scope that may be judged for a wider one; one row per observation.';
