-- What was derived from an observation is in a scope of the next level: individual, group, collective. So lineage has no
-- cycles.
SELECT
    a.agent_id,
    format('o%s-%s', l.scope_id, l.seq) AS key,
    format('of a %s scope, made of o%s-%s of a %s scope', t.kind, l.source_scope_id, l.source_seq, s.kind) AS detail
FROM memory.lineage l
JOIN memory.agents a ON a.agent_key = l.agent_key
JOIN memory.scopes s ON s.agent_key = l.agent_key AND s.scope_id = l.source_scope_id
JOIN memory.scopes t ON t.agent_key = l.agent_key AND t.scope_id = l.scope_id
WHERE (s.kind, t.kind) NOT IN (('individual', 'group'), ('group', 'collective'))
