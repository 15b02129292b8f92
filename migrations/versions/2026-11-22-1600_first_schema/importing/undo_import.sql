CREATE OR REPLACE FUNCTION memory.undo_import(p_agent bigint, p_import bigint) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
#variable_conflict use_column
DECLARE
    v_conversations text[] := ARRAY(
        SELECT DISTINCT i.conversation_id FROM memory.imported_messages i WHERE i.agent_key = p_agent AND i.import_id = p_import
    );
    v_whole text[];
BEGIN
    PERFORM FROM memory.agents a WHERE a.agent_key = p_agent FOR KEY SHARE;  -- a user may not do this
    IF NOT FOUND THEN
        RAISE EXCEPTION 'this transaction does not work for agent %', p_agent USING ERRCODE = 'insufficient_privilege';
    END IF;
    DELETE FROM memory.imported i WHERE i.agent_key = p_agent AND i.import_id = p_import;
    DELETE FROM memory.consolidations c
    USING memory.imported_texts(p_agent, p_import) t
    WHERE c.agent_key = p_agent AND c.scope_id = t.scope_id AND c.version = t.version AND NOT t.live;
    -- What somebody else has also said stays, supported by their evidence alone.
    WITH ours AS (
        SELECT r.run_id FROM memory.runs r WHERE r.agent_key = p_agent AND r.import_id = p_import
    ), gone AS (
        DELETE FROM memory.evidence e
        USING ours r
        WHERE e.agent_key = p_agent AND e.run_id = r.run_id AND EXISTS (
            SELECT FROM memory.evidence v
            WHERE v.agent_key = p_agent AND v.scope_id = e.scope_id AND v.seq = e.seq
              AND (v.run_id IS NULL OR v.run_id NOT IN (SELECT run_id FROM ours))
        )
        RETURNING e.evidence_id, e.scope_id, e.seq
    ), left_over AS (
        UPDATE memory.observations o
        SET run_id = CASE WHEN o.run_id IN (SELECT run_id FROM ours) THEN NULL ELSE o.run_id END,
            legacy_ref = CASE WHEN o.run_id IN (SELECT run_id FROM ours) THEN NULL ELSE o.legacy_ref END,
            related_users = ARRAY(
                SELECT DISTINCT e.user_id
                FROM memory.evidence e
                WHERE e.agent_key = p_agent AND e.scope_id = o.scope_id AND e.seq = o.seq AND e.user_id IS NOT NULL
                  AND e.evidence_id NOT IN (SELECT evidence_id FROM gone)
            )
        FROM (SELECT DISTINCT scope_id, seq FROM gone) g, memory.observations before
        WHERE o.agent_key = p_agent AND o.scope_id = g.scope_id AND o.seq = g.seq
          AND before.agent_key = p_agent AND before.scope_id = g.scope_id AND before.seq = g.seq
        RETURNING before.run_id
    )
    UPDATE memory.runs r SET forgotten = r.forgotten + n.observations
    FROM (SELECT run_id, count(*)::integer AS observations FROM left_over GROUP BY run_id) n
    WHERE r.agent_key = p_agent AND r.run_id = n.run_id AND r.import_id = p_import;
    v_whole := ARRAY(
        SELECT k FROM unnest(v_conversations) k
        WHERE NOT EXISTS (
            SELECT FROM memory.messages m
            LEFT JOIN memory.imported_messages i USING (agent_key, conversation_id, number)
            WHERE m.agent_key = p_agent AND m.conversation_id = k AND i.import_id IS DISTINCT FROM p_import
        ) AND NOT EXISTS (
            SELECT FROM memory.runs r
            WHERE r.agent_key = p_agent AND r.conversation_id = k AND r.import_id IS DISTINCT FROM p_import
        ) AND NOT EXISTS (SELECT FROM memory.evidence e WHERE e.agent_key = p_agent AND e.conversation_id = k)
    );
    UPDATE memory.messages m
    SET content = NULL, speaker = NULL, search_extra = '', signal = NULL, eligible = m.eligible AND m.number <= t.formed_number
    FROM memory.imported_messages i
    JOIN memory.conversations t USING (agent_key, conversation_id)
    WHERE i.agent_key = p_agent AND i.import_id = p_import AND i.conversation_id <> ALL (v_whole)
      AND m.agent_key = p_agent AND m.conversation_id = i.conversation_id AND m.number = i.number
      AND NOT EXISTS (
          SELECT FROM memory.evidence e
          WHERE e.agent_key = p_agent AND e.conversation_id = m.conversation_id AND e.number = m.number
      );
    DELETE FROM memory.imported_messages i WHERE i.agent_key = p_agent AND i.import_id = p_import;
    DELETE FROM memory.messages m WHERE m.agent_key = p_agent AND m.conversation_id = ANY (v_whole);
    DELETE FROM memory.runs r WHERE r.agent_key = p_agent AND r.conversation_id = ANY (v_whole);
    DELETE FROM memory.conversations t WHERE t.agent_key = p_agent AND t.conversation_id = ANY (v_whole);
    PERFORM memory.count_unformed(p_agent, ARRAY(SELECT k FROM unnest(v_conversations) k WHERE k <> ALL (v_whole)));
    -- A member who has left since stays recorded as having left; one who has spoken as a member is now a member by the host's word.
    UPDATE memory.members m SET import_id = NULL
    FROM memory.scopes s
    WHERE m.agent_key = p_agent AND m.import_id = p_import AND s.agent_key = p_agent AND s.scope_id = m.scope_id
      AND (m.left_at IS NOT NULL OR EXISTS (
          SELECT FROM memory.conversations t
          WHERE memory.user_tokens(t.agent_key, t.participants) && memory.user_tokens(p_agent, ARRAY[m.user_id])
            AND t.agent_key IS NOT DISTINCT FROM p_agent AND t.participants @> ARRAY[m.user_id]
            AND t.group_ids @> ARRAY[substr(s.owner, 3)]
      ));
    DELETE FROM memory.members m WHERE m.agent_key = p_agent AND m.import_id = p_import;
    DELETE FROM memory.prompts p WHERE p.agent_key = p_agent AND p.import_id = p_import;
    DELETE FROM memory.runs r
    WHERE r.agent_key = p_agent AND r.import_id = p_import AND r.conversation_id IS NULL
      AND NOT EXISTS (SELECT FROM memory.observations o WHERE o.agent_key = p_agent AND o.run_id = r.run_id)
      AND NOT EXISTS (SELECT FROM memory.evidence e WHERE e.agent_key = p_agent AND e.run_id = r.run_id)
      AND NOT EXISTS (SELECT FROM memory.consolidations c WHERE c.agent_key = p_agent AND c.run_id = r.run_id);
    RETURN QUERY
    DELETE FROM memory.scopes s
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
    RETURNING s.scope_id;
END
$$;
REVOKE EXECUTE ON FUNCTION memory.undo_import(bigint, bigint) FROM PUBLIC;
COMMENT ON FUNCTION memory.undo_import IS
    'Deletes what an import brought, except observations; one row per deleted scope.';
