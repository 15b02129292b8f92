-- What a formation stored in a group or collective scope isn't confidential, contains no sensitive personal data and is
-- proposed for no wider scope. (A group may know sensitive data that is about no user.) What it stored in a group was said
-- only by users who have been members. Only active observations count: those set aside are shown nowhere. Marking one private
-- later makes it confidential as well, but then no_propagate, which no formation sets.
SELECT
    a.agent_id,
    format('o%s-%s', o.scope_id, o.seq) AS key,
    format(
        'in a %s scope: categories %s, proposed %s, said by %s who were never members', s.kind,
        coalesce(cardinality(o.categories)::text, 'unknown'), coalesce(o.proposed, 'to nobody'), e.strangers
    ) AS detail
FROM memory.observations o
JOIN memory.agents a ON a.agent_key = o.agent_key
JOIN memory.scopes s ON s.agent_key = o.agent_key AND s.scope_id = o.scope_id AND s.kind IN ('group', 'collective')
LEFT JOIN memory.observation_states t ON (t.agent_key, t.scope_id, t.seq) = (o.agent_key, o.scope_id, o.seq)
CROSS JOIN LATERAL (
    SELECT
        count(DISTINCT u.user_id) FILTER (
            WHERE s.kind = 'group' AND NOT EXISTS (
                SELECT FROM memory.user_ids(o.agent_key, memory.person(o.agent_key, u.user_id)) i
                JOIN memory.scopes g ON g.agent_key = o.agent_key AND g.owner = s.owner AND g.name = ''
                JOIN memory.members m ON m.agent_key = o.agent_key AND m.scope_id = g.scope_id AND m.user_id = i.user_id
            )
        ) AS strangers
    FROM unnest(o.related_users) AS u (user_id)
) e
WHERE o.source_kind = 'formation' AND memory.in_use(t.status)
  AND (
      o.confidential AND NOT o.no_propagate
      OR 'credential' = ANY (o.categories)
      OR (
          o.categories && '{financial,health,identity,intimate}'::text[]
          AND (s.kind = 'collective' OR o.subjects <> '{}')
      )
      OR o.proposed IS NOT NULL
      OR e.strangers > 0
  )
