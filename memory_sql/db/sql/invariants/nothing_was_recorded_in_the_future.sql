-- No recorded time is more than five minutes ahead of both the database's clock and the caller's, and no run ended before it
-- began. (When something was said, and when work is due, may be any time.)
WITH clock AS (
    SELECT greatest(clock_timestamp(), :now) + interval '5 minutes' AS latest
), recorded (agent_key, key, at) AS (
    SELECT agent_key, 'agent', created_at FROM memory.agents
    UNION ALL
    SELECT agent_key, 'scope ' || scope_id, greatest(created_at, last_activity_at, consolidated_at) FROM memory.scopes
    UNION ALL
    SELECT agent_key, format('scope %s, member %s', scope_id, user_id), greatest(joined_at, left_at) FROM memory.members
    UNION ALL
    SELECT agent_key, 'conversation ' || conversation_id, greatest(created_at, last_activity_at)
    FROM memory.conversations
    UNION ALL
    SELECT agent_key, 'run ' || run_id, greatest(started_at, finished_at) FROM memory.runs
    UNION ALL
    SELECT agent_key, format('s%sv%s', scope_id, version), created_at FROM memory.consolidations
    UNION ALL
    SELECT agent_key, format('o%s-%s', scope_id, seq), status_at FROM memory.observation_states
)
SELECT a.agent_id, r.key, format('recorded at %s', r.at) AS detail
FROM recorded r
JOIN memory.agents a USING (agent_key)
CROSS JOIN clock
WHERE r.at > clock.latest
UNION ALL
SELECT a.agent_id, format('message %s of conversation %s', m.number, m.conversation_id),
    format('recorded at %s', m.created_at)
FROM memory.messages m
JOIN memory.agents a USING (agent_key)
CROSS JOIN clock
WHERE m.created_at > clock.latest
UNION ALL
SELECT a.agent_id, format('o%s-%s', o.scope_id, o.seq), format('recorded at %s', o.created_at)
FROM memory.observations o
JOIN memory.agents a USING (agent_key)
CROSS JOIN clock
WHERE o.created_at > clock.latest
UNION ALL
SELECT a.agent_id, format('o%s-%s', e.scope_id, e.seq), format('evidence recorded at %s', e.created_at)
FROM memory.evidence e
JOIN memory.agents a USING (agent_key)
CROSS JOIN clock
WHERE e.created_at > clock.latest
UNION ALL
SELECT a.agent_id, 'run ' || r.run_id, format('begun at %s, ended at %s', r.started_at, r.finished_at)
FROM memory.runs r
JOIN memory.agents a USING (agent_key)
WHERE r.finished_at < r.started_at - interval '5 minutes'
