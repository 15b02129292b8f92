CREATE OR REPLACE FUNCTION memory.forget_closure(
    p_agent bigint, p_users text[], p_conversations text[], p_scopes bigint[], p_scope_ids bigint[], p_seqs integer[],
    p_conversation_ids text[], p_numbers bigint[], p_confirmable boolean, p_others_stay boolean DEFAULT false,
    OUT scope_ids bigint[], OUT seqs integer[], OUT conversation_ids text[], OUT numbers bigint[], OUT evidence_ids bigint[],
    OUT held_scope_ids bigint[], OUT held_seqs integer[], OUT held_conversation_ids text[], OUT held_numbers bigint[],
    OUT held_evidence_ids bigint[], OUT touches_others boolean
)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    v_round_scope_ids bigint[];
    v_round_seqs integer[];
    v_round_conversation_ids text[] := '{}';
    v_round_numbers bigint[] := '{}';
BEGIN
    SELECT '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'
    INTO scope_ids, seqs, conversation_ids, numbers, held_scope_ids, held_seqs, held_conversation_ids, held_numbers, held_evidence_ids;
    SELECT coalesce(array_agg(o.scope_id), '{}'), coalesce(array_agg(o.seq), '{}') INTO v_round_scope_ids, v_round_seqs
    FROM (
        SELECT o.scope_id, o.seq
        FROM memory.observations o
        WHERE cardinality(p_scopes) > 0 AND o.agent_key = p_agent AND o.scope_id = ANY (p_scopes)
        UNION
        SELECT o.scope_id, o.seq
        FROM unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
        JOIN memory.observations o ON o.agent_key = p_agent AND o.scope_id = k.scope_id AND o.seq = k.seq
    ) o;
    IF p_users || p_conversations || p_conversation_ids <> '{}' THEN
        -- The agent's turn answers the newest user's turn before it.
        SELECT coalesce(array_agg(m.conversation_id), '{}'), coalesce(array_agg(m.number), '{}')
        INTO v_round_conversation_ids, v_round_numbers
        FROM (
            SELECT m.*, first_value(m.user_id) OVER (PARTITION BY m.conversation_id, m.asked ORDER BY m.number) AS answered
            FROM (
                SELECT m.*, max(m.number) FILTER (WHERE m.user_id IS NOT NULL) OVER (
                    PARTITION BY m.conversation_id ORDER BY m.number
                ) AS asked
                FROM (
                    SELECT c FROM unnest(p_conversations || p_conversation_ids) c
                    UNION
                    SELECT c.conversation_id
                    FROM memory.conversations c
                    WHERE memory.user_tokens(c.agent_key, c.participants) && memory.user_tokens(p_agent, p_users)
                      AND c.agent_key IS NOT DISTINCT FROM p_agent AND c.participants && p_users
                    UNION
                    SELECT u.conversation_id  -- what a hold has kept of somebody who is no participant any more
                    FROM memory.messages u
                    WHERE cardinality(p_users) > 0 AND u.agent_key = p_agent AND u.withdrawn_by IS NOT NULL
                      AND u.user_id = ANY (p_users)
                ) AS k (conversation_id)
                CROSS JOIN LATERAL (
                    SELECT m.conversation_id, m.number, m.user_id,
                           m.content IS NOT NULL OR m.content_hash IS NOT NULL OR m.speaker IS NOT NULL AS has_text
                    FROM memory.messages m WHERE m.agent_key = p_agent AND m.conversation_id = k.conversation_id
                    OFFSET 0
                ) m
            ) m
        ) m
        WHERE (
                m.conversation_id = ANY (p_conversations) OR m.answered = ANY (p_users)
                OR (m.conversation_id, m.number) IN (SELECT * FROM unnest(p_conversation_ids, p_numbers))
            )
            AND (
                m.has_text
                OR EXISTS (
                    SELECT FROM memory.evidence e
                    WHERE e.agent_key = p_agent AND e.conversation_id = m.conversation_id AND e.number = m.number
                )
            );
    END IF;
    LOOP
        scope_ids := scope_ids || v_round_scope_ids;
        seqs := seqs || v_round_seqs;
        conversation_ids := conversation_ids || v_round_conversation_ids;
        numbers := numbers || v_round_numbers;
        SELECT coalesce(array_agg(e.evidence_id), '{}'),
               coalesce(bool_or((e.scope_id, e.seq) NOT IN (SELECT * FROM unnest(scope_ids, seqs))), false)
        INTO evidence_ids, touches_others
        FROM (
            SELECT e.evidence_id, e.scope_id, e.seq
            FROM memory.evidence e
            WHERE cardinality(p_users) > 0 AND e.agent_key = p_agent AND e.user_id = ANY (p_users) AND e.user_id IS NOT NULL
            UNION
            SELECT e.*
            FROM unnest(scope_ids, seqs) AS k (scope_id, seq)
            CROSS JOIN LATERAL (  -- here and below: one look by the index for each, else all of the agent's might be read
                SELECT e.evidence_id, e.scope_id, e.seq
                FROM memory.evidence e WHERE e.agent_key = p_agent AND e.scope_id = k.scope_id AND e.seq = k.seq
                UNION ALL
                SELECT e.evidence_id, e.scope_id, e.seq
                FROM memory.evidence e
                WHERE e.agent_key = p_agent AND e.scope_id = k.scope_id AND e.repeated_seq = k.seq
            ) e
            UNION
            SELECT e.*
            FROM unnest(conversation_ids, numbers) AS k (conversation_id, number)
            CROSS JOIN LATERAL (
                SELECT e.evidence_id, e.scope_id, e.seq
                FROM memory.evidence e
                WHERE e.agent_key = p_agent AND e.conversation_id = k.conversation_id AND e.number = k.number
                OFFSET 0
            ) e
        ) e;
        touches_others := touches_others OR EXISTS (
            SELECT FROM unnest(scope_ids, seqs) AS k (scope_id, seq)
            CROSS JOIN LATERAL (
                SELECT FROM memory.lineage l
                WHERE l.agent_key = p_agent AND l.source_scope_id = k.scope_id AND l.source_seq = k.seq
                OFFSET 0
            ) l
        ) OR EXISTS (
            SELECT FROM unnest(scope_ids, seqs) AS k (scope_id, seq)
            CROSS JOIN LATERAL memory.parts(p_agent, k.scope_id, k.seq) p
            WHERE (k.scope_id, p) NOT IN (SELECT * FROM unnest(scope_ids, seqs))
        );
        SELECT '{}', '{}' INTO v_round_scope_ids, v_round_seqs;
        IF touches_others THEN
            SELECT coalesce(array_agg(o.scope_id), '{}'), coalesce(array_agg(o.seq), '{}')
            INTO v_round_scope_ids, v_round_seqs
            FROM (
                SELECT e.scope_id, e.seq
                FROM (
                    SELECT e.*, bool_or(e.is_removed AND e.is_origin) OVER of_observation AS lost_an_origin,
                           NOT p_confirmable
                           AND e.person = ANY (array_agg(e.person) FILTER (WHERE e.is_removed AND e.is_origin) OVER of_observation)
                               AS is_own
                    FROM (
                        SELECT e.scope_id, e.seq, e.apart AS is_apart,
                               e.repeated_seq IS NULL AND (e.conversation_id IS NULL OR e.user_id IS NOT NULL) AS is_somebodys_word,
                               e.evidence_id IN (SELECT * FROM unnest(evidence_ids)) OR e.withdrawn_by IS NOT NULL AS is_removed,
                               CASE WHEN NOT p_confirmable THEN memory.person(p_agent, e.user_id) END AS person,
                               coalesce(CASE
                                   WHEN e.conversation_id = o.conversation_id THEN m.message_id = ANY (o.message_ids)
                                   ELSE o.source_kind = 'formation' AND e.run_id = o.run_id AND e.repeated_seq IS NULL
                               END, false) AS is_origin
                        FROM (
                            SELECT DISTINCT scope_id, seq
                            FROM memory.evidence
                            JOIN unnest(evidence_ids) AS r (evidence_id) USING (evidence_id)
                            WHERE agent_key = p_agent AND repeated_seq IS NULL
                        ) c
                        JOIN memory.observations o ON o.agent_key = p_agent AND (o.scope_id, o.seq) = (c.scope_id, c.seq)
                        JOIN memory.evidence e ON e.agent_key = p_agent AND (e.scope_id, e.seq) = (c.scope_id, c.seq)
                        LEFT JOIN memory.messages m
                            ON m.agent_key = p_agent AND (m.conversation_id, m.number) = (e.conversation_id, e.number)
                    ) e
                    WINDOW of_observation AS (PARTITION BY e.scope_id, e.seq)
                ) e
                GROUP BY e.scope_id, e.seq
                HAVING NOT bool_or(
                    e.is_somebodys_word AND NOT e.is_removed AND NOT (e.is_origin AND e.lost_an_origin) AND (e.is_apart OR e.is_own IS NOT TRUE)
                )
                UNION
                SELECT d.scope_id, d.seq
                FROM memory.derived(p_agent, scope_ids, seqs, evidence_ids) d
                UNION
                SELECT k.scope_id, p
                FROM unnest(scope_ids, seqs) AS k (scope_id, seq)
                CROSS JOIN LATERAL memory.parts(p_agent, k.scope_id, k.seq) p
            ) o
            WHERE (o.scope_id, o.seq) NOT IN (SELECT * FROM unnest(scope_ids, seqs));
        END IF;
        SELECT coalesce(array_agg(m.conversation_id), '{}'), coalesce(array_agg(m.number), '{}')
        INTO v_round_conversation_ids, v_round_numbers
        FROM (
            SELECT DISTINCT e.conversation_id, e.number
            FROM unnest(scope_ids, seqs) AS k (scope_id, seq)
            CROSS JOIN LATERAL (
                SELECT e.* FROM memory.evidence e WHERE e.agent_key = p_agent AND e.scope_id = k.scope_id AND e.seq = k.seq OFFSET 0
            ) e
            WHERE NOT p_others_stay AND e.repeated_seq IS NULL
              AND (e.conversation_id, e.number) NOT IN (SELECT * FROM unnest(conversation_ids, numbers))
              AND NOT EXISTS (SELECT FROM memory.lineage l WHERE (l.agent_key, l.scope_id, l.seq) = (p_agent, k.scope_id, k.seq) OFFSET 0)
        ) e
        JOIN LATERAL (
            SELECT m.* FROM memory.messages m WHERE (m.agent_key, m.conversation_id, m.number) = (p_agent, e.conversation_id, e.number) OFFSET 0
        ) m ON cardinality(p_users) = 0 OR m.user_id IS NULL OR m.user_id = ANY (p_users);
        EXIT WHEN cardinality(v_round_scope_ids) = 0 AND cardinality(v_round_conversation_ids) = 0;
    END LOOP;
    IF NOT p_others_stay THEN
        SELECT conversation_ids || coalesce(array_agg(a.conversation_id), '{}'), numbers || coalesce(array_agg(a.number), '{}')
        INTO conversation_ids, numbers
        FROM (
            SELECT * FROM memory.answers_to(p_agent, conversation_ids || p_conversation_ids, numbers || p_numbers)
            EXCEPT SELECT * FROM unnest(conversation_ids, numbers)
        ) a;
    END IF;
    IF NOT EXISTS (SELECT FROM memory.holds h WHERE h.agent_key = p_agent AND h.released_at IS NULL) THEN
        RETURN;
    END IF;
    SELECT coalesce(array_agg(k.evidence_id) FILTER (WHERE NOT k.held), '{}'), coalesce(array_agg(k.evidence_id) FILTER (WHERE k.held), '{}')
    INTO evidence_ids, held_evidence_ids
    FROM (
        SELECT e.evidence_id, memory.is_held_observation(p_agent, e.scope_id, e.seq)
                   AND (e.repeated_seq IS NULL OR memory.is_held_observation(p_agent, e.scope_id, e.repeated_seq)) AS held
        FROM unnest(evidence_ids) AS u (evidence_id)
        JOIN memory.evidence e ON e.agent_key = p_agent AND e.evidence_id = u.evidence_id
        OFFSET 0
    ) k;
    SELECT coalesce(array_agg(k.scope_id) FILTER (WHERE NOT k.held), '{}'), coalesce(array_agg(k.seq) FILTER (WHERE NOT k.held), '{}'),
           coalesce(array_agg(k.scope_id) FILTER (WHERE k.held), '{}'), coalesce(array_agg(k.seq) FILTER (WHERE k.held), '{}')
    INTO scope_ids, seqs, held_scope_ids, held_seqs
    FROM (
        SELECT u.*, memory.is_held_observation(p_agent, u.scope_id, u.seq) AS held
        FROM unnest(scope_ids, seqs) AS u (scope_id, seq)
        OFFSET 0
    ) k;
    SELECT coalesce(array_agg(k.conversation_id) FILTER (WHERE NOT k.held), '{}'), coalesce(array_agg(k.number) FILTER (WHERE NOT k.held), '{}'),
           coalesce(array_agg(k.conversation_id) FILTER (WHERE k.held), '{}'), coalesce(array_agg(k.number) FILTER (WHERE k.held), '{}')
    INTO conversation_ids, numbers, held_conversation_ids, held_numbers
    FROM (
        SELECT u.*, memory.is_held_message(p_agent, u.conversation_id, u.number) AS held
        FROM unnest(conversation_ids, numbers) AS u (conversation_id, number)
        OFFSET 0
    ) k;
END
$$;
COMMENT ON FUNCTION memory.forget_closure IS
    'What goes when users, conversations, scopes or observations are forgotten; one row of arrays.';
