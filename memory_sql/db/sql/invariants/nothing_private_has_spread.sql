-- Nothing was derived from an observation that never leaves its scope: one that is marked so, was said in confidence, is
-- sensitive, isn't classified, or is personal beyond contact data, which is cut out. (After a correction, what was derived
-- before keeps its lineage.) Withdrawn observations don't count, since they are shown nowhere.
SELECT
    a.agent_id,
    format('o%s-%s', l.scope_id, l.seq) AS key,
    format(
        'made of o%s-%s: no_propagate %s, confidential %s, %s, categories %s', o.scope_id, o.seq, o.no_propagate::int,
        o.confidential::int, o.sensitivity, coalesce(cardinality(o.categories)::text, 'unknown')
    ) AS detail
FROM memory.lineage l
JOIN memory.observations o ON (o.agent_key, o.scope_id, o.seq) = (l.agent_key, l.source_scope_id, l.source_seq)
JOIN memory.agents a ON a.agent_key = l.agent_key
LEFT JOIN memory.observation_states t ON (t.agent_key, t.scope_id, t.seq) = (l.agent_key, l.scope_id, l.seq)
WHERE (
    o.no_propagate OR o.confidential OR o.sensitivity = 'sensitive'
    OR (o.categories <@ '{contact,location}'::text[]) IS NOT TRUE
  )
  AND t.withdrawn_by IS NULL
