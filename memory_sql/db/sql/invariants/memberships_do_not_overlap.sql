-- Only groups have members, and a user's memberships of a group don't overlap in time.
SELECT
    a.agent_id,
    format('user %s in scope %s', m.user_id, m.scope_id) AS key,
    format('joined %s, left %s, joined again %s', m.joined_at, coalesce(m.left_at::text, 'never'),
           coalesce(m.joined_again_at::text, 'never')) AS detail
FROM (
    SELECT agent_key, scope_id, user_id, joined_at, left_at,
           lead(joined_at) OVER in_order AS joined_again_at
    FROM memory.members
    WINDOW in_order AS (PARTITION BY agent_key, scope_id, user_id ORDER BY joined_at, left_at)
) m
JOIN memory.agents a USING (agent_key)
JOIN memory.scopes s USING (agent_key, scope_id)
WHERE s.kind <> 'group' OR m.left_at < m.joined_at OR m.joined_again_at < coalesce(m.left_at, 'infinity')
