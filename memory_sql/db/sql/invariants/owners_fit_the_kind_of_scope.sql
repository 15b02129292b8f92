-- The owner of a scope has the form that its kind requires: what a principal may see is decided by the owner.
SELECT a.agent_id, 'scope ' || s.scope_id AS key, format('an owner of %s characters', length(s.owner)) AS detail
FROM memory.scopes s
JOIN memory.agents a USING (agent_key)
WHERE NOT CASE s.kind
    WHEN 'individual' THEN s.owner LIKE 'u:_%'
    WHEN 'group' THEN s.owner LIKE 'g:_%'
    WHEN 'conversation' THEN s.owner LIKE 's:_%'
    WHEN 'entity' THEN s.owner LIKE 'e:_%'
    WHEN 'collective' THEN s.owner = 'c'
    WHEN 'agent' THEN s.owner = 'a'
    WHEN 'guideline' THEN s.owner = 'p'
    ELSE false
END
