CREATE OR REPLACE FUNCTION memory.undo_import(p_agent bigint, p_import bigint) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
#variable_conflict use_column
DECLARE
    v_conversations text[] := ARRAY(
        SELECT DISTINCT i.conversation_id FROM memory.imported_messages i WHERE i.agent_key = p_agent AND i.import_id = p_import
    );
    v_whole text[];
    v_scopes bigint[];
BEGIN
    PERFORM FROM memory.agents a WHERE a.agent_key = p_agent FOR KEY SHARE;  -- a user may not do this
    IF NOT FOUND THEN
        RAISE EXCEPTION 'this transaction does not work for agent %', p_agent USING ERRCODE = 'insufficient_privilege';
    END IF;
    DELETE FROM memory.imported i
    WHERE i.agent_key = p_agent AND i.import_id = p_import AND NOT EXISTS (
        SELECT FROM memory.observation_states t
        WHERE t.agent_key = p_agent AND t.scope_id = i.scope_id AND t.seq = i.seq AND t.withdrawn_by IS NOT NULL
    );
    UPDATE memory.imported i SET legacy_ref = format('withdrawn:%s:%s', i.seq, i.legacy_ref)
    WHERE i.agent_key = p_agent AND i.import_id = p_import AND i.legacy_ref NOT LIKE 'withdrawn:%';
    DELETE FROM memory.consolidations c
    USING memory.imported_texts(p_agent, p_import) t
    WHERE c.agent_key = p_agent AND c.scope_id = t.scope_id AND c.version = t.version AND NOT t.live;
    -- What somebody else has also said stays, and comes from no import any more.
    WITH ours AS (
        SELECT r.run_id FROM memory.runs r WHERE r.agent_key = p_agent AND r.import_id = p_import
    ), left_over AS (
        UPDATE memory.observations o SET run_id = NULL, legacy_ref = NULL
        FROM ours r, memory.observations before
        WHERE o.agent_key = p_agent AND o.run_id = r.run_id
          AND (before.agent_key, before.scope_id, before.seq) = (p_agent, o.scope_id, o.seq)
          AND NOT EXISTS (
              SELECT FROM memory.observation_states t
              WHERE t.agent_key = p_agent AND t.scope_id = o.scope_id AND t.seq = o.seq AND t.withdrawn_by IS NOT NULL
          )
        RETURNING before.run_id, before.part_of
    )
    UPDATE memory.runs r SET forgotten = r.forgotten + n.observations
    FROM (SELECT run_id, count(*)::integer AS observations FROM left_over WHERE part_of IS NULL GROUP BY run_id) n
    WHERE r.agent_key = p_agent AND r.run_id = n.run_id;
    v_whole := ARRAY(
        SELECT k FROM unnest(v_conversations) k
        WHERE NOT EXISTS (
            SELECT FROM memory.messages m
            LEFT JOIN memory.imported_messages i USING (agent_key, conversation_id, number)
            WHERE m.agent_key = p_agent AND m.conversation_id = k
              AND (i.import_id IS DISTINCT FROM p_import OR m.content IS NOT NULL)
        ) AND NOT EXISTS (
            SELECT FROM memory.runs r
            WHERE r.agent_key = p_agent AND r.conversation_id = k AND r.import_id IS DISTINCT FROM p_import
        ) AND NOT EXISTS (SELECT FROM memory.evidence e WHERE e.agent_key = p_agent AND e.conversation_id = k)
    );
    WITH gone AS (
        DELETE FROM memory.imported_messages i
        WHERE i.agent_key = p_agent AND i.import_id = p_import AND NOT EXISTS (
            SELECT FROM memory.messages m  -- then all of the conversation wait, to go together
            WHERE (m.agent_key, m.conversation_id) = (p_agent, i.conversation_id) AND m.withdrawn_by IS NOT NULL
        )
        RETURNING i.conversation_id, i.number
    )
    UPDATE memory.messages m SET message_id = format('rolled back %s:%s', p_import, m.number)  -- it may come again, under its own
    FROM gone g
    WHERE m.agent_key = p_agent AND m.conversation_id = g.conversation_id AND m.number = g.number AND m.content IS NULL;
    DELETE FROM memory.messages m
    WHERE m.agent_key = p_agent AND m.conversation_id = ANY (v_whole) AND m.content IS NULL;  -- only their keys are left
    DELETE FROM memory.runs r WHERE r.agent_key = p_agent AND r.conversation_id = ANY (v_whole);
    DELETE FROM memory.conversations t WHERE t.agent_key = p_agent AND t.conversation_id = ANY (v_whole);
    -- A member who has left since stays recorded as having left; one who has spoken as a member, by any id of theirs, is now a
    -- member by the host's word.
    UPDATE memory.members m SET import_id = NULL
    FROM memory.scopes s
    WHERE m.agent_key = p_agent AND m.import_id = p_import AND s.agent_key = p_agent AND s.scope_id = m.scope_id
      AND (m.left_at IS NOT NULL OR EXISTS (
          SELECT FROM memory.conversations t
          CROSS JOIN LATERAL (
              SELECT ARRAY(SELECT i.user_id FROM memory.user_ids(p_agent, memory.person(p_agent, m.user_id)) i) AS users
          ) p
          WHERE memory.user_tokens(t.agent_key, t.participants) && memory.user_tokens(p_agent, p.users)
            AND t.agent_key IS NOT DISTINCT FROM p_agent AND t.participants && p.users
            AND t.group_ids @> ARRAY[substr(s.owner, 3)]
      ));
    DELETE FROM memory.members m WHERE m.agent_key = p_agent AND m.import_id = p_import;
    DELETE FROM memory.prompts p WHERE p.agent_key = p_agent AND p.import_id = p_import;
    DELETE FROM memory.runs r
    WHERE r.agent_key = p_agent AND r.import_id = p_import AND r.conversation_id IS NULL
      AND NOT EXISTS (SELECT FROM memory.observations o WHERE o.agent_key = p_agent AND o.run_id = r.run_id)
      AND NOT EXISTS (SELECT FROM memory.evidence e WHERE e.agent_key = p_agent AND e.run_id = r.run_id)
      AND NOT EXISTS (SELECT FROM memory.consolidations c WHERE c.agent_key = p_agent AND c.run_id = r.run_id);
    v_scopes := ARRAY(
        SELECT s.scope_id
        FROM memory.scopes s
        WHERE s.agent_key = p_agent AND s.import_id = p_import AND s.lease_until IS NULL
          AND NOT EXISTS (SELECT FROM memory.observations o WHERE o.agent_key = p_agent AND o.scope_id = s.scope_id)
          AND NOT EXISTS (SELECT FROM memory.consolidations c WHERE c.agent_key = p_agent AND c.scope_id = s.scope_id)
          AND NOT EXISTS (SELECT FROM memory.runs r WHERE r.agent_key = p_agent AND r.scope_id = s.scope_id)
          AND NOT EXISTS (SELECT FROM memory.members m WHERE m.agent_key = p_agent AND m.scope_id = s.scope_id)
          AND NOT EXISTS (SELECT FROM memory.departures d WHERE d.agent_key = p_agent AND d.scope_id = s.scope_id)
          AND NOT EXISTS (
              SELECT FROM memory.conversations t
              WHERE s.kind = 'group' AND t.agent_key = p_agent AND t.group_ids @> ARRAY[substr(s.owner, 3)]
          )
          AND NOT EXISTS (SELECT FROM memory.prompts p WHERE p.agent_key = p_agent AND p.scope_id = s.scope_id)
          AND NOT EXISTS (SELECT FROM memory.imported i WHERE i.agent_key = p_agent AND i.scope_id = s.scope_id)
    );
    DELETE FROM memory.judged j WHERE j.agent_key = p_agent AND j.target_scope_id = ANY (v_scopes);  -- for whom there is nothing
    RETURN QUERY
    DELETE FROM memory.scopes s WHERE s.agent_key = p_agent AND s.scope_id = ANY (v_scopes) RETURNING s.scope_id;
END
$$;
REVOKE EXECUTE ON FUNCTION memory.undo_import(bigint, bigint) FROM PUBLIC;
COMMENT ON FUNCTION memory.undo_import IS
    'Deletes what an import brought besides what was said and remembered; one row per deleted scope.';
