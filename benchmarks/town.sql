-- What town.py fills in; :people and so on are its SIZES.
INSERT INTO memory.agents (agent_key, agent_id) VALUES (1, 'ada');
CREATE TEMPORARY TABLE town_people ON COMMIT DROP AS
    SELECT n, CASE n WHEN 0 THEN 'mia' ELSE 'p' || n END AS user_id FROM generate_series(0, :people - 1) n;
CREATE TEMPORARY TABLE town_scopes ON COMMIT DROP AS
    SELECT 1000 + n AS scope_id, 'individual' AS kind, 'u:' || user_id AS owner, n, '' AS group_id,
           CASE n WHEN 0 THEN :own ELSE :each END AS many
    FROM town_people WHERE n <= :individuals
    UNION ALL
    SELECT 100000 + n, 'group', 'g:g' || n, n, 'g' || n, CASE n WHEN 1 THEN 4 * :each ELSE :each END
    FROM generate_series(1, :groups) n
    UNION ALL
    SELECT 200000, 'collective', 'c', 0, '', :each;
INSERT INTO memory.scopes (agent_key, scope_id, kind, owner, display_name, version, last_seq, done_seq, last_activity_at,
    consolidated_at, propagated_version)
SELECT 1, scope_id, kind, owner, CASE kind WHEN 'group' THEN 'The crew of boat ' || n END, 3, many, many - 5, now(), now(), 3
FROM town_scopes;
INSERT INTO memory.members (agent_key, scope_id, user_id, joined_at)
SELECT 1, 100001, user_id, now() - interval '100 days' FROM town_people
UNION ALL
SELECT 1, 100000 + g, user_id, now() - interval '100 days'
FROM generate_series(2, :groups) g, town_people WHERE n > 0 AND n % :groups = g % :groups OR n = 0 AND g <= 30;

-- Who says what, where: one message for each observation but those of everybody's scope, twenty messages a conversation.
CREATE TEMPORARY TABLE town_said ON COMMIT DROP AS
    SELECT s.*, i AS seq, s.scope_id || '-' || (i - 1) / 20 AS conversation_id, (i - 1) % 20 + 1 AS number,
           now() - :days * interval '1 day' * (s.many - i + 1) / s.many AS at,
           CASE WHEN kind = 'individual' THEN substr(owner, 3)
                WHEN i % 10 = 0 AND n <= 30 THEN 'mia'
                WHEN n = 1 THEN 'p' || 1 + i % (:people - 1)
                ELSE 'p' || n + :groups * (i % 20) END AS user_id
    FROM town_scopes s, generate_series(1, many) i WHERE kind <> 'collective';
INSERT INTO memory.conversations (agent_key, conversation_id, user_id, participants, group_ids, last_number, formed_number,
    created_at, last_activity_at, text_since)
SELECT 1, conversation_id, (array_agg(user_id ORDER BY number))[1], array_agg(DISTINCT user_id),
       CASE WHEN kind = 'group' THEN ARRAY[group_id] ELSE '{}' END, max(number), max(number), min(at), max(at), min(at)
FROM town_said GROUP BY conversation_id, kind, group_id;
INSERT INTO memory.messages (agent_key, conversation_id, number, message_id, role, weight, said_at, owner, user_id, content)
SELECT 1, s.conversation_id, number, 'm' || number, 'user', 1, at, 'u:' || c.user_id, s.user_id,
       'I keep boat ' || seq || ' of pier ' || n || ', painted ' || (ARRAY['red', 'green', 'blue', 'grey'])[1 + seq % 4] || '.'
FROM town_said s JOIN memory.conversations c USING (conversation_id);
INSERT INTO memory.runs (agent_key, run_id, kind, conversation_id, from_number, to_number, fence, state, model, input_tokens,
    output_tokens, latency_seconds, calls, started_at, finished_at, observations)
SELECT 1, row_number() OVER (ORDER BY max(at)), 'formation', conversation_id, 0, max(number), 1, 'succeeded', 'small', 1200, 300,
       1.5, 1, max(at), max(at), count(*)
FROM town_said GROUP BY conversation_id;
INSERT INTO memory.observations (agent_key, scope_id, seq, content, observed_at, created_at, source_kind, conversation_id,
    message_ids, related_users, run_id, hash_version, kind, importance, confidence, sensitivity, categories)
SELECT 1, scope_id, seq,
       user_id || ' keeps boat ' || seq || ' of pier ' || n || ', painted '
           || (ARRAY['red', 'green', 'blue', 'grey'])[1 + seq % 4] || '.',
       at, at, 'formation', conversation_id, ARRAY['m' || number], ARRAY[user_id], run_id, 1, 'fact', 0.5, 0.8, 'public', '{}'
FROM town_said s JOIN (SELECT conversation_id, run_id FROM memory.runs) r USING (conversation_id);
INSERT INTO memory.evidence (agent_key, scope_id, seq, conversation_id, number, user_id, run_id, created_at)
SELECT 1, scope_id, seq, conversation_id, number, user_id, run_id, at
FROM town_said s JOIN (SELECT conversation_id, run_id FROM memory.runs) r USING (conversation_id);

-- Everybody's comes from what five groups say. Four of mia's memories are known to 25 of her groups.
CREATE TEMPORARY TABLE town_spread ON COMMIT DROP AS
    SELECT 200000 AS scope_id, i AS seq, 100100 + n AS source_scope_id, i AS source_seq, false AS whole
    FROM generate_series(1, :each) i, generate_series(1, 5) n
    UNION ALL
    SELECT 100000 + g, :each + i, 1000, i, true FROM generate_series(2, 26) g, generate_series(1, 4) i;
INSERT INTO memory.observations (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version, sensitivity, categories)
SELECT DISTINCT 1, scope_id, seq, 'Boat ' || seq || ' is painted every spring.', now(), 'propagation', 1, 'public', '{}'::text[]
FROM town_spread;
UPDATE memory.scopes SET last_seq = last_seq + 4 WHERE scope_id BETWEEN 100002 AND 100026;
INSERT INTO memory.evidence (agent_key, scope_id, seq) SELECT DISTINCT 1, scope_id, seq FROM town_spread;
INSERT INTO memory.lineage (agent_key, scope_id, seq, source_scope_id, source_seq, whole)
SELECT 1, scope_id, seq, source_scope_id, source_seq, whole FROM town_spread;
INSERT INTO memory.judged (agent_key, source_scope_id, source_seq, target_scope_id, outcome, reason, seq)
SELECT 1, source_scope_id, source_seq, scope_id, 'propagated', 'several', seq FROM town_spread;

INSERT INTO memory.consolidations (agent_key, scope_id, version, base, from_seq, to_seq, content, words, reason, created_at)
SELECT 1, scope_id, v, v - 1, CASE v WHEN 1 THEN 0 ELSE (many - 5) * (v - 1) / 3 END, (many - 5) * v / 3, told, 300, 'asked', now()
FROM town_scopes, generate_series(1, 3) v, LATERAL (
    SELECT string_agg('There is a boat ' || i || ' at pier ' || n || ', painted red, which version ' || v || ' tells of.', ' ') AS told
    FROM generate_series(1, 20) i
) t;

-- What comes next has keys of its own.
SELECT setval(pg_get_serial_sequence('memory.agents', 'agent_key'), max(agent_key)) FROM memory.agents;
SELECT setval(pg_get_serial_sequence('memory.scopes', 'scope_id'), max(scope_id)) FROM memory.scopes;
SELECT setval(pg_get_serial_sequence('memory.runs', 'run_id'), max(run_id)) FROM memory.runs;
