-- Two observations that are linked by a name both hold it, and those that are linked by whom they are about are about
-- the same user. (A foreign key ensures that both exist.)
SELECT
    a.agent_id,
    format('o%s-%s', l.scope_id, l.seq) AS key,
    format('linked with o%s-%s', l.scope_id, l.to_seq) AS detail
FROM memory.links l
JOIN memory.agents a USING (agent_key)
JOIN memory.observations o ON o.agent_key = l.agent_key AND o.scope_id = l.scope_id AND o.seq = l.seq
JOIN memory.observations t ON t.agent_key = l.agent_key AND t.scope_id = l.scope_id AND t.seq = l.to_seq
WHERE l.kind = 'entity' AND CASE
    WHEN l.label = '' THEN NOT o.subjects && t.subjects
    ELSE strpos(memory.plain_words(o.content), memory.plain_words(l.label)) = 0
        OR strpos(memory.plain_words(t.content), memory.plain_words(l.label)) = 0
END
