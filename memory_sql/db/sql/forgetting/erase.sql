-- memory.erase(agent_key, scope_ids, seqs, conversation_ids, numbers, evidence_ids, held_…, losing, scopes, users, attended,
-- forgetting, at):
-- deletes what `memory.forget_closure` or `memory.imported_beside` returned, and says how many rows of each kind; and, for the caller to go on, `standing`: the id
-- of each scope in which something may have been superseded by what is gone or withdrawn, and `unsettled`, if memory.unsettled finds anything in
-- the scopes that are `losing` something, and `left`: the id of each scope of a group that somebody has left, if anything that stays
-- there loses evidence or a source. The only place that deletes. Of what was returned the
-- observations, messages and evidence that a hold keeps (`held_…`) stay in their tables and are withdrawn, by the id of the
-- `forgetting` that waits for the hold to end; whatever else stood on them goes as if they had gone. Belongs at the end of a
-- forgetting: the caller holds the locks on the conversations and scopes concerned and has rewound their texts. Deleted are
-- observations with their states, evidence, lineage and judgements, the tainted versions, and answers that a model gave while
-- it was shown any of this. Of messages the key stays, without a word. What others support as well stays and no longer names
-- `users`; it is in no episode of a conversation in which nothing supports it any more; and where what goes is what it was
-- formed from, of its topics and search cues only those stay that its text says, without the vectors made with the others.
-- What was superseded by something deleted is left to the next one in line; if there is none, to the caller.
-- `scopes` lose also their name and prompts, `users` their place among the participants of the conversations `attended`, and their
-- memberships: of both not what has come since the caller looked, with words of theirs that stay. That they had left a group stays,
-- without their ids (memory.departures). It runs as its owner, who may delete where the application may not, and row-level policies
-- hold for that one too: only what the principal of the transaction serves.
CREATE OR REPLACE FUNCTION memory.erase(
    p_agent bigint, p_scope_ids bigint[], p_seqs integer[], p_conversation_ids text[], p_numbers bigint[],
    p_evidence_ids bigint[], p_held_scope_ids bigint[], p_held_seqs integer[], p_held_conversation_ids text[],
    p_held_numbers bigint[], p_held_evidence_ids bigint[], p_losing bigint[], p_scopes bigint[], p_users text[], p_attended text[],
    p_forgetting text, p_at timestamptz
) RETURNS TABLE (what text, counted bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
#variable_conflict use_column
DECLARE
    v_scope_ids bigint[] := p_scope_ids || p_held_scope_ids;
    v_seqs integer[] := p_seqs || p_held_seqs;
    v_evidence_ids bigint[] := p_evidence_ids || p_held_evidence_ids;
    v_touched bigint[] := ARRAY(SELECT DISTINCT x FROM unnest(v_scope_ids || p_scopes) x ORDER BY x);
    v_made_scope_ids bigint[];
    v_made_seqs integer[];
    v_losing_scope_ids bigint[];  -- what stays and loses evidence
    v_losing_seqs integer[];
    v_unsaid_scope_ids bigint[];  -- of this, what loses some of what it was formed from
    v_unsaid_seqs integer[];
    v_conversations text[] := ARRAY(SELECT DISTINCT x FROM unnest(p_conversation_ids || p_held_conversation_ids) x ORDER BY x);
    v_is_absorbed boolean;
    v_is_spread boolean;
    v_supersedes boolean;
    v_is_imported boolean;
    v_consolidations bigint := 0;
    v_judged bigint;
    v_lineage bigint := 0;
    v_evidence bigint;
    v_observations bigint;
    v_messages bigint := 0;
    v_runs bigint;
    v_members bigint := 0;
BEGIN
    PERFORM FROM memory.agents a WHERE a.agent_key = p_agent FOR KEY SHARE;  -- which a user may not
    IF NOT FOUND THEN  -- behind walls, where nobody has named the principal: better an error than nothing erased
        RAISE EXCEPTION 'this transaction does not work for agent %', p_agent USING ERRCODE = 'insufficient_privilege';
    END IF;

    -- Mostly there is none of this. A statement costs as much where it finds nothing, so each is left out that would.
    SELECT EXISTS (SELECT FROM unnest(v_touched) x JOIN memory.consolidations c ON c.agent_key = p_agent AND c.scope_id = x),
           EXISTS (
               SELECT FROM unnest(v_scope_ids, v_seqs) AS k (scope_id, seq)
               JOIN memory.lineage l ON l.agent_key = p_agent AND l.source_scope_id = k.scope_id AND l.source_seq = k.seq
           ) OR EXISTS (
               SELECT FROM unnest(v_scope_ids, v_seqs) AS k (scope_id, seq)
               JOIN memory.lineage l ON l.agent_key = p_agent AND l.scope_id = k.scope_id AND l.seq = k.seq
           ) OR EXISTS (
               SELECT FROM unnest(v_scope_ids, v_seqs) AS k (scope_id, seq)
               JOIN memory.judged j ON j.agent_key = p_agent AND j.target_scope_id = k.scope_id AND j.seq = k.seq
           ), EXISTS (
               SELECT FROM unnest(v_scope_ids, v_seqs) AS k (scope_id, seq)
               JOIN memory.observation_states t ON t.agent_key = p_agent AND (t.scope_id, t.superseded_by) = (k.scope_id, k.seq)
           ), EXISTS (SELECT FROM unnest(v_touched) x JOIN memory.imported i ON i.agent_key = p_agent AND i.scope_id = x)
           OR EXISTS (
               SELECT FROM unnest(v_conversations) x
               JOIN memory.imported_messages i ON i.agent_key = p_agent AND i.conversation_id = x
           )
    INTO v_is_absorbed, v_is_spread, v_supersedes, v_is_imported;
    SELECT coalesce(array_agg(e.scope_id), '{}'), coalesce(array_agg(e.seq), '{}') INTO v_losing_scope_ids, v_losing_seqs
    FROM (
        SELECT e.scope_id, e.seq FROM memory.evidence e WHERE e.agent_key = p_agent AND e.evidence_id = ANY (v_evidence_ids)
        EXCEPT SELECT * FROM unnest(v_scope_ids, v_seqs)
    ) e;
    IF cardinality(v_losing_seqs) > 0 THEN
        SELECT array_agg(k.scope_id), array_agg(k.seq) INTO v_unsaid_scope_ids, v_unsaid_seqs
        FROM unnest(v_losing_scope_ids, v_losing_seqs) AS k (scope_id, seq)
        JOIN memory.observations o ON o.agent_key = p_agent AND o.scope_id = k.scope_id AND o.seq = k.seq
        WHERE EXISTS (
            SELECT FROM memory.evidence e
            WHERE e.agent_key = p_agent AND e.scope_id = k.scope_id AND e.seq = k.seq AND e.evidence_id = ANY (v_evidence_ids)
              AND e.run_id IS NOT DISTINCT FROM o.run_id
        );
    END IF;

    IF v_is_absorbed THEN
        DELETE FROM memory.consolidations c
        USING memory.tainted_versions(p_agent, p_scopes, v_scope_ids, v_seqs) t
        WHERE c.agent_key = p_agent AND c.scope_id = t.scope_id AND c.version = t.version;
        GET DIAGNOSTICS v_consolidations = ROW_COUNT;
    END IF;

    -- A judgement is deleted with its source. If the source stays and what was derived from it is deleted, it isn't derived again,
    -- unless another source is the cause: then it is judged again without that one. So is what was known from somebody who is
    -- now forgotten.
    IF v_is_spread THEN
        WITH changed AS (
            UPDATE memory.judged j
            SET outcome = CASE WHEN c.lost_a_source OR j.reason = 'known' AND p_users <> '{}' THEN 'waiting' ELSE 'refused' END,
                reason = CASE WHEN c.lost_a_source OR j.reason = 'known' AND p_users <> '{}' THEN 'lost_a_source' ELSE 'taken_out' END,
                seq = NULL
            FROM (
                SELECT k.scope_id, k.seq, EXISTS (
                    SELECT FROM memory.lineage l
                    WHERE l.agent_key = p_agent AND l.scope_id = k.scope_id AND l.seq = k.seq
                      AND (
                          (l.source_scope_id, l.source_seq) IN (SELECT * FROM unnest(v_scope_ids, v_seqs))
                          OR EXISTS (
                              SELECT FROM memory.evidence e
                              WHERE e.agent_key = p_agent AND e.scope_id = l.source_scope_id AND e.seq = l.source_seq
                                AND e.evidence_id = ANY (v_evidence_ids)
                          )
                      )
                ) AS lost_a_source
                FROM unnest(v_scope_ids, v_seqs) AS k (scope_id, seq)
            ) c
            WHERE j.agent_key = p_agent AND j.target_scope_id = c.scope_id AND j.seq = c.seq
            RETURNING j.source_scope_id, j.outcome
        )
        UPDATE memory.scopes s  -- a run that is under way has counted what goes
        SET propagate_at = coalesce(s.propagate_at, p_at),
            fence = s.fence + (s.lease_until IS NOT NULL)::integer,
            lease_until = NULL
        WHERE s.agent_key = p_agent
          AND s.scope_id IN (SELECT c.source_scope_id FROM changed c WHERE c.outcome = 'waiting');

        WITH gone AS (
            DELETE FROM memory.lineage l
            USING (
                SELECT m.scope_id, m.seq, m.source_scope_id, m.source_seq
                FROM unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
                JOIN memory.lineage m ON m.agent_key = p_agent AND m.scope_id = k.scope_id AND m.seq = k.seq
                UNION
                SELECT m.scope_id, m.seq, m.source_scope_id, m.source_seq
                FROM unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
                JOIN memory.lineage m ON m.agent_key = p_agent AND m.source_scope_id = k.scope_id AND m.source_seq = k.seq
            ) g
            WHERE l.agent_key = p_agent AND (l.scope_id, l.seq) = (g.scope_id, g.seq)
              AND (l.source_scope_id, l.source_seq) = (g.source_scope_id, g.source_seq)
            RETURNING l.scope_id, l.seq
        ) SELECT count(*), array_agg(g.scope_id), array_agg(g.seq) INTO v_lineage, v_made_scope_ids, v_made_seqs FROM gone g;

        -- What is left of what was made of it stands on what somebody has said there, where no source is left.
        DELETE FROM memory.evidence e
        USING memory.observations o
        WHERE o.agent_key = p_agent AND o.source_kind = 'propagation' AND (o.scope_id, o.seq) IN (SELECT * FROM unnest(v_made_scope_ids, v_made_seqs))
          AND (o.scope_id, o.seq) NOT IN (SELECT * FROM unnest(p_scope_ids, p_seqs))
          AND e.agent_key = p_agent AND e.scope_id = o.scope_id AND e.seq = o.seq
          AND e.run_id IS NOT NULL AND e.user_id IS NULL AND e.conversation_id IS NULL
          AND NOT EXISTS (
              SELECT FROM memory.lineage l WHERE l.agent_key = p_agent AND l.scope_id = o.scope_id AND l.seq = o.seq
          );
    END IF;

    DELETE FROM memory.judged j
    USING unnest(v_scope_ids, v_seqs) AS k (scope_id, seq)
    WHERE j.agent_key = p_agent AND (j.source_scope_id, j.source_seq) = (k.scope_id, k.seq);
    GET DIAGNOSTICS v_judged = ROW_COUNT;

    DELETE FROM memory.evidence e WHERE e.agent_key = p_agent AND e.evidence_id = ANY (p_evidence_ids);
    GET DIAGNOSTICS v_evidence = ROW_COUNT;

    UPDATE memory.evidence e SET withdrawn_by = memory.waits_for(p_agent, e.withdrawn_by, p_forgetting)
    WHERE e.agent_key = p_agent AND e.evidence_id = ANY (p_held_evidence_ids);

    IF cardinality(v_losing_seqs) > 0 THEN
        UPDATE memory.observations o  -- whom nothing relates to it any more: also a user one of whose messages is forgotten
        SET speaker = NULL, related_users = l.users
        FROM (
            SELECT o.scope_id, o.seq, ARRAY(
                SELECT u.user_id
                FROM unnest(o.related_users) WITH ORDINALITY AS u (user_id, place)
                WHERE u.user_id <> ALL (p_users) AND EXISTS (
                    SELECT FROM memory.evidence e
                    WHERE e.agent_key = p_agent AND e.scope_id = o.scope_id AND e.seq = o.seq AND e.user_id = u.user_id
                      AND e.withdrawn_by IS NULL
                )
                ORDER BY u.place
            ) AS users
            FROM unnest(v_losing_scope_ids, v_losing_seqs) AS g (scope_id, seq)
            JOIN memory.observations o ON o.agent_key = p_agent AND o.scope_id = g.scope_id AND o.seq = g.seq
        ) l
        WHERE o.agent_key = p_agent AND o.scope_id = l.scope_id AND o.seq = l.seq AND o.related_users <> l.users;

        DELETE FROM memory.observation_episodes n
        USING unnest(v_losing_scope_ids, v_losing_seqs) AS k (scope_id, seq), memory.episodes i, memory.observations o
        WHERE n.agent_key = p_agent AND n.scope_id = k.scope_id AND n.seq = k.seq
          AND i.agent_key = p_agent AND i.episode_id = n.episode_id
          AND o.agent_key = p_agent AND o.scope_id = k.scope_id AND o.seq = k.seq AND o.source_kind = 'formation'
          AND NOT EXISTS (
              SELECT FROM memory.evidence e
              WHERE e.agent_key = p_agent AND e.scope_id = k.scope_id AND e.seq = k.seq
                AND e.conversation_id = i.conversation_id AND e.repeated_seq IS NULL AND e.withdrawn_by IS NULL
          );

        UPDATE memory.observation_episodes n SET topics = memory.topics_said(o, n.topics)
        FROM unnest(v_unsaid_scope_ids, v_unsaid_seqs) AS k (scope_id, seq), memory.observations o
        WHERE n.agent_key = p_agent AND n.scope_id = k.scope_id AND n.seq = k.seq
          AND o.agent_key = p_agent AND o.scope_id = k.scope_id AND o.seq = k.seq AND n.topics <> memory.topics_said(o, n.topics);

        WITH cut AS (
            UPDATE memory.observations o SET terms = l.terms
            FROM (
                SELECT o.scope_id, o.seq, array_to_string(ARRAY(
                    SELECT t.term
                    FROM regexp_split_to_table(o.terms, '\n') WITH ORDINALITY t(term, place)
                    WHERE memory.says(o.language, o.content, t.term)
                    ORDER BY t.place
                ), E'\n') AS terms
                FROM unnest(v_unsaid_scope_ids, v_unsaid_seqs) AS k (scope_id, seq)
                JOIN memory.observations o ON o.agent_key = p_agent AND o.scope_id = k.scope_id AND o.seq = k.seq
            ) l
            WHERE o.agent_key = p_agent AND o.scope_id = l.scope_id AND o.seq = l.seq AND o.terms <> l.terms
            RETURNING o.scope_id, o.seq
        )
        DELETE FROM memory.observation_vectors v USING cut c  -- made of the terms too
        WHERE v.agent_key = p_agent AND v.scope_id = c.scope_id AND v.seq = c.seq;
    END IF;

    IF v_supersedes THEN
        -- What was superseded by what goes stays superseded by the next one in line that doesn't.
        WITH RECURSIVE heirs (scope_id, seq, heir) AS (
            SELECT k.scope_id, k.seq, g.superseded_by
            FROM unnest(v_scope_ids, v_seqs) AS k (scope_id, seq)
            LEFT JOIN memory.observation_states g ON g.agent_key = p_agent AND (g.scope_id, g.seq) = (k.scope_id, k.seq)
            UNION
            SELECT h.scope_id, h.seq, g.superseded_by
            FROM heirs h
            LEFT JOIN memory.observation_states g ON g.agent_key = p_agent AND (g.scope_id, g.seq) = (h.scope_id, h.heir)
            WHERE (h.scope_id, h.heir) IN (SELECT * FROM unnest(v_scope_ids, v_seqs))
        )
        UPDATE memory.observation_states t SET superseded_by = h.heir FROM heirs h
        WHERE t.agent_key = p_agent AND (t.scope_id, t.superseded_by) = (h.scope_id, h.seq) AND CASE
            WHEN h.heir IS NULL THEN t.status <> 'superseded' ELSE (h.scope_id, h.heir) NOT IN (SELECT * FROM unnest(v_scope_ids, v_seqs))
        END;
    END IF;

    IF cardinality(p_held_scope_ids) > 0 THEN
        UPDATE memory.observation_states t SET withdrawn_by = memory.waits_for(p_agent, t.withdrawn_by, p_forgetting)
        FROM unnest(p_held_scope_ids, p_held_seqs) AS k (scope_id, seq)
        WHERE t.agent_key = p_agent AND (t.scope_id, t.seq) = (k.scope_id, k.seq) AND t.withdrawn_by IS NOT NULL;

        WITH before AS (
            SELECT k.scope_id, k.seq, coalesce(t.status, 'active') AS status
            FROM unnest(p_held_scope_ids, p_held_seqs) AS k (scope_id, seq)
            LEFT JOIN memory.observation_states t ON t.agent_key = p_agent AND (t.scope_id, t.seq) = (k.scope_id, k.seq)
            WHERE t.withdrawn_by IS NULL
        ), withdrawn AS (
            INSERT INTO memory.observation_states AS t (agent_key, scope_id, seq, status, status_at, withdrawn_by)
            SELECT p_agent, b.scope_id, b.seq, 'withdrawn', p_at, p_forgetting FROM before b
            ON CONFLICT (agent_key, scope_id, seq) DO UPDATE
            SET status = excluded.status, status_at = excluded.status_at, withdrawn_by = excluded.withdrawn_by,
                superseded_by = NULL, follows = false
        )
        INSERT INTO memory.events (agent_key, kind, scope_id, seq, detail, created_at)
        SELECT p_agent, 'status', b.scope_id, b.seq, jsonb_build_object('from', b.status, 'to', 'withdrawn', 'why', 'hold'), p_at
        FROM before b;
    END IF;

    IF v_supersedes THEN
        RETURN QUERY SELECT DISTINCT 'standing', k.scope_id FROM unnest(v_scope_ids) AS k (scope_id);
    END IF;

    IF v_is_imported THEN
        -- What was imported doesn't come again, neither as its text nor as the text of a scope that loses its name; but an import
        -- that is taken out again may.
        WITH gone AS (
            DELETE FROM memory.imported i
            USING unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
            WHERE i.agent_key = p_agent AND i.scope_id = k.scope_id AND i.seq = k.seq
            RETURNING i.ref_hash
        ), gone_texts AS (
            DELETE FROM memory.imported i WHERE i.agent_key = p_agent AND i.scope_id = ANY (p_scopes) AND i.seq IS NULL
            RETURNING i.ref_hash
        )
        INSERT INTO memory.forgotten_refs (agent_key, ref_hash, forgotten_at)
        SELECT DISTINCT p_agent, g.ref_hash, p_at
        FROM (
            SELECT ref_hash FROM gone UNION ALL SELECT ref_hash FROM gone_texts
            UNION ALL
            SELECT i.ref_hash
            FROM memory.imported i
            WHERE i.agent_key = p_agent AND (i.scope_id, i.seq) IN (SELECT * FROM unnest(p_held_scope_ids, p_held_seqs))
            UNION ALL
            SELECT i.ref_hash
            FROM memory.imported_messages i
            WHERE i.agent_key = p_agent AND (i.conversation_id, i.number) IN (
                SELECT * FROM unnest(p_conversation_ids || p_held_conversation_ids, p_numbers || p_held_numbers)
            )
        ) g
        WHERE p_forgetting NOT LIKE 'import:%'
        ON CONFLICT DO NOTHING;
    END IF;

    WITH gone AS (
        DELETE FROM memory.observations o
        USING unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
        WHERE o.agent_key = p_agent AND o.scope_id = k.scope_id AND o.seq = k.seq
        RETURNING CASE WHEN o.part_of IS NULL THEN o.run_id END AS run_id  -- of parts the run made none
    ), counted AS (
        UPDATE memory.runs r
        SET forgotten = r.forgotten + g.observations
        FROM (SELECT run_id, count(*)::integer AS observations FROM gone WHERE run_id IS NOT NULL GROUP BY run_id) g
        WHERE r.agent_key = p_agent AND r.run_id = g.run_id
    ) SELECT count(*) INTO v_observations FROM gone;

    IF cardinality(v_conversations) > 0 THEN
        UPDATE memory.messages m
        SET content = NULL, content_hash = NULL, speaker = NULL, search_extra = '', signal = NULL, withdrawn_by = NULL,
            eligible = m.eligible AND m.number <= t.formed_number
        FROM unnest(p_conversation_ids, p_numbers) AS k (conversation_id, number), memory.conversations t
        WHERE m.agent_key = p_agent AND m.conversation_id = k.conversation_id AND m.number = k.number
          AND t.agent_key = p_agent AND t.conversation_id = k.conversation_id;
        GET DIAGNOSTICS v_messages = ROW_COUNT;

        UPDATE memory.messages m
        SET withdrawn_by = memory.waits_for(p_agent, m.withdrawn_by, p_forgetting),
            eligible = m.eligible AND m.number <= t.formed_number
        FROM unnest(p_held_conversation_ids, p_held_numbers) AS k (conversation_id, number), memory.conversations t
        WHERE m.agent_key = p_agent AND m.conversation_id = k.conversation_id AND m.number = k.number
          AND t.agent_key = p_agent AND t.conversation_id = k.conversation_id;

        PERFORM memory.count_unformed(p_agent, v_conversations);
    END IF;

    UPDATE memory.events v SET reason = NULL
    FROM unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
    WHERE v.agent_key = p_agent AND v.scope_id = k.scope_id AND v.seq = k.seq AND v.reason IS NOT NULL;

    IF cardinality(p_scopes) > 0 OR cardinality(p_users) > 0 THEN
        UPDATE memory.events v SET reason = NULL  -- which may name them; what a forgetting or a hold was for stays
        WHERE v.agent_key = p_agent AND v.reason IS NOT NULL AND (
            v.scope_id = ANY (p_scopes) OR v.kind = 'alias' AND v.detail ->> 'into_user_id' = ANY (p_users)
            OR v.kind IN ('alias', 'membership', 'rename')
            AND coalesce(v.detail ->> 'user_id', v.detail ->> 'conversation_id') = ANY (p_users)
        );
    END IF;

    UPDATE memory.scopes s
    SET epoch = s.epoch + 1,
        display_name = CASE WHEN s.scope_id = ANY (p_scopes) THEN NULL ELSE s.display_name END
    WHERE s.agent_key = p_agent AND s.scope_id = ANY (v_touched);

    UPDATE memory.scopes s SET speakers = memory.speakers_of(s.agent_key, s.scope_id)
    WHERE s.agent_key = p_agent AND s.scope_id = ANY (p_losing) AND s.speakers <> '{}';

    DELETE FROM memory.prompts p WHERE p.agent_key = p_agent AND p.scope_id = ANY (p_scopes);

    IF cardinality(p_users) > 0 THEN
        DELETE FROM memory.links l  -- where nobody is left whom both are about
        USING memory.observations o, memory.observations t
        WHERE o.agent_key = p_agent AND o.subjects <> '{}' AND o.subjects && p_users
          AND l.agent_key = p_agent AND l.scope_id = o.scope_id AND l.seq = o.seq AND l.kind = 'entity' AND l.label = ''
          AND t.agent_key = p_agent AND t.scope_id = l.scope_id AND t.seq = l.to_seq
          AND NOT EXISTS (SELECT FROM unnest(o.subjects) u WHERE u = ANY (t.subjects) AND u <> ALL (p_users));

        UPDATE memory.observations o  -- what others have said of them stays, and says no more of whom
        SET subjects = ARRAY(
            SELECT s.user_id
            FROM unnest(o.subjects) WITH ORDINALITY AS s (user_id, place) WHERE s.user_id <> ALL (p_users)
            ORDER BY s.place
        )
        WHERE o.agent_key = p_agent AND o.subjects <> '{}' AND o.subjects && p_users
          AND (o.scope_id, o.seq) NOT IN (SELECT * FROM unnest(v_scope_ids, v_seqs));

        UPDATE memory.conversations t
        SET participants = ARRAY(SELECT u FROM unnest(t.participants) u WHERE u <> ALL (p_users))
        WHERE t.agent_key = p_agent AND t.conversation_id = ANY (p_attended) AND t.participants && p_users;

        -- Who had left a group stays out of it, by each of their ids; who was a member doesn't, whatever there was before that.
        WITH of_them AS (
            SELECT m.scope_id, bool_or(m.left_at IS NULL) AS is_member
            FROM memory.members m WHERE m.agent_key = p_agent AND m.user_id = ANY (p_users)
            GROUP BY m.scope_id
        ), hashed AS (SELECT memory.user_hash(p_agent, u) AS user_hash FROM unnest(p_users) u), came_back AS (
            DELETE FROM memory.departures d
            USING hashed h, of_them o
            WHERE d.agent_key = p_agent AND d.user_hash = h.user_hash AND d.scope_id = o.scope_id AND o.is_member
        )
        INSERT INTO memory.departures (agent_key, user_hash, scope_id)
        SELECT p_agent, h.user_hash, o.scope_id
        FROM of_them o
        CROSS JOIN hashed h
        WHERE NOT o.is_member
        ON CONFLICT DO NOTHING;

        DELETE FROM memory.members m
        WHERE m.agent_key = p_agent AND m.user_id = ANY (p_users) AND (m.left_at IS NOT NULL OR NOT EXISTS (
            SELECT FROM memory.conversations t  -- in which they have spoken since
            JOIN memory.scopes s ON s.agent_key = p_agent AND s.scope_id = m.scope_id AND substr(s.owner, 3) = ANY (t.group_ids)
            WHERE memory.user_tokens(t.agent_key, t.participants) && memory.user_tokens(p_agent, p_users)
              AND t.agent_key IS NOT DISTINCT FROM p_agent AND m.user_id = ANY (t.participants)
        ));
        GET DIAGNOSTICS v_members = ROW_COUNT;

        -- A hold goes on to cover the ids that stood for the user whom it names.
        UPDATE memory.user_aliases u
        SET ended_at = coalesce(u.ended_at, greatest(p_at, u.created_at)), withdrawn_by = p_forgetting
        WHERE u.agent_key = p_agent AND (u.user_id = ANY (p_users) OR u.into_user_id = ANY (p_users)) AND u.withdrawn_by IS NULL;
    END IF;

    DELETE FROM memory.user_aliases u
    WHERE u.agent_key = p_agent AND u.withdrawn_by IS NOT NULL AND NOT memory.is_held_id(p_agent, u.into_user_id);

    -- What a model was shown of this, its answer may hold; what it was shown is listed in `seen`. After the members: a formation that
    -- names them has them locked as it begins, and is seen once that has ended.
    UPDATE memory.runs r
    SET state = CASE WHEN r.finished_at IS NULL THEN 'failed' ELSE r.state END,
        error_code = CASE WHEN r.finished_at IS NULL THEN 'forgotten' ELSE r.error_code END,
        error = CASE WHEN r.finished_at IS NULL THEN 'something that it was shown was forgotten' ELSE r.error END,
        finished_at = coalesce(r.finished_at, p_at),
        answer = NULL,
        held = NULL,
        seen = '{}'
    WHERE r.agent_key = p_agent AND r.run_id IN (
        SELECT u.run_id FROM memory.runs u
        WHERE u.agent_key = p_agent AND u.finished_at IS NULL AND (
            u.conversation_id = ANY (v_conversations) OR u.scope_id = ANY (v_touched)
            OR EXISTS (SELECT FROM jsonb_object_keys(u.seen -> 'scopes') AS s WHERE s::bigint = ANY (v_touched))
            -- they are named to it, though they say nothing there
            OR EXISTS (SELECT FROM jsonb_array_elements(u.seen -> 'targets') AS t, unnest(p_users) AS p WHERE t ->> 2 = 'u:' || p)
        )
        UNION SELECT h.run_id FROM memory.runs h WHERE h.agent_key = p_agent AND h.scope_id = ANY (v_touched) AND h.held IS NOT NULL
    );
    GET DIAGNOSTICS v_runs = ROW_COUNT;

    RETURN QUERY VALUES
        ('consolidations', v_consolidations), ('judged', v_judged), ('lineage', v_lineage), ('evidence', v_evidence),
        ('observations', v_observations), ('messages', v_messages), ('runs', v_runs), ('members', v_members);
    IF v_is_spread OR cardinality(v_losing_seqs) > 0 THEN
        RETURN QUERY SELECT 'left', s.scope_id FROM memory.left_scopes(p_agent, v_losing_scope_ids || v_made_scope_ids || ARRAY(
            SELECT l.scope_id FROM unnest(p_held_scope_ids, p_held_seqs) AS k (scope_id, seq)
            JOIN memory.lineage l ON l.agent_key = p_agent AND l.source_scope_id = k.scope_id AND l.source_seq = k.seq
        )) s;
    END IF;
    IF v_is_spread OR cardinality(v_losing_seqs) > 0 OR cardinality(p_held_seqs) > 0 THEN
        RETURN QUERY SELECT 'unsettled', 1::bigint WHERE EXISTS (SELECT FROM memory.unsettled(p_agent, p_losing));
    END IF;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.erase FROM PUBLIC;

COMMENT ON FUNCTION memory.erase IS 'Takes out what is forgotten, and counts it; one row per kind.';

-- memory.waits_for(agent_key, before, forgetting): for which forgetting something withdrawn waits that is withdrawn again: a
-- forgetting takes over what a rollback of an import, a marking or somebody's leaving has withdrawn. One value.
CREATE OR REPLACE FUNCTION memory.waits_for(p_agent bigint, p_before text, p_forgetting text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN p_before IS NULL THEN p_forgetting
        WHEN p_forgetting LIKE 'import:%' THEN p_before
        WHEN p_before NOT LIKE 'import:%' AND EXISTS (
            SELECT FROM memory.events v WHERE v.agent_key = p_agent AND v.kind = 'forget' AND v.detail ->> 'id' = p_before
        ) THEN p_before
        ELSE p_forgetting
    END
$$;

COMMENT ON FUNCTION memory.waits_for IS 'For which forgetting something waits that is withdrawn once more; one value.';
