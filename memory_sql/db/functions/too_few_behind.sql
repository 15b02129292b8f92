-- memory.too_few_behind(agent_key): what was propagated to the collective scope and stands on too few people or groups by now,
-- since two ids turned out to be one person. One row per observation. Three people and two groups, without exception.
CREATE OR REPLACE FUNCTION memory.too_few_behind(p_agent bigint) RETURNS TABLE (scope_id bigint, seq integer)
LANGUAGE sql STABLE
AS $$
    SELECT o.scope_id, o.seq
    FROM memory.scopes s
    JOIN memory.observations o ON o.agent_key = s.agent_key AND o.scope_id = s.scope_id
    WHERE s.agent_key = p_agent AND s.kind = 'collective' AND o.source_kind = 'propagation'
      AND (
          (
              SELECT count(DISTINCT b.person)
              FROM memory.people_behind(p_agent, ARRAY[o.scope_id], ARRAY[o.seq], 0) b
          ) < 3
          OR (
              SELECT count(DISTINCT l.source_scope_id)
              FROM memory.lineage l
              WHERE l.agent_key = p_agent AND l.scope_id = o.scope_id AND l.seq = o.seq
          ) < 2
      )
$$;

COMMENT ON FUNCTION memory.too_few_behind(bigint) IS
    'What was propagated to the collective scope and stands on too few people or groups; one row per observation.';
