-- The record of an imported document names a scope that exists, and an existing observation of it or none. There is no
-- foreign key for this, since for millions of rows at once it would look up the same few scopes.
SELECT
    a.agent_id,
    format('%s in s%s', i.legacy_ref, i.scope_id) AS key,
    CASE WHEN i.seq IS NULL THEN '0 scopes' ELSE format('0 observations %s', i.seq) END AS detail
FROM memory.imported i
JOIN memory.agents a USING (agent_key)
WHERE CASE
    WHEN i.seq IS NULL
    THEN NOT EXISTS (SELECT FROM memory.scopes s WHERE s.agent_key = i.agent_key AND s.scope_id = i.scope_id)
    ELSE NOT EXISTS (
        SELECT FROM memory.observations o WHERE o.agent_key = i.agent_key AND o.scope_id = i.scope_id AND o.seq = i.seq
    )
END
