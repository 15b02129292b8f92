-- memory.imported_beside(agent_key, import_id, scope_ids, seqs): what an import brought besides the observations (scope_ids[i],
-- seqs[i]): the messages that still have their words and of which nothing else was made, and its evidence for what stays. One row
-- per message or row of evidence, of which the other's columns are null. `held`: a legal hold keeps it.
CREATE OR REPLACE FUNCTION memory.imported_beside(p_agent bigint, p_import bigint, p_scope_ids bigint[], p_seqs integer[])
RETURNS TABLE (conversation_id text, number bigint, evidence_id bigint, scope_id bigint, held boolean)
LANGUAGE sql STABLE AS $$
    WITH brought AS MATERIALIZED (
        SELECT k.scope_id, k.seq FROM unnest(p_scope_ids, p_seqs) AS k (scope_id, seq)
    ), own AS MATERIALIZED (
        SELECT r.run_id FROM memory.runs r WHERE r.agent_key = p_agent AND r.import_id = p_import
    ), holds AS MATERIALIZED (
        SELECT EXISTS (SELECT FROM memory.holds h WHERE h.agent_key = p_agent AND h.released_at IS NULL) AS are_open
    )
    SELECT m.conversation_id, m.number, NULL::bigint, NULL::bigint,
           h.are_open AND memory.is_held_message(p_agent, m.conversation_id, m.number)
    FROM memory.imported_messages i
    JOIN memory.messages m USING (agent_key, conversation_id, number)
    CROSS JOIN holds h
    WHERE i.agent_key = p_agent AND i.import_id = p_import AND (m.content IS NOT NULL OR m.speaker IS NOT NULL)
      AND NOT EXISTS (
          SELECT FROM memory.evidence e
          WHERE e.agent_key = p_agent AND e.conversation_id = m.conversation_id AND e.number = m.number
            AND (e.scope_id, e.seq) NOT IN (TABLE brought) AND (e.run_id IS NULL OR e.run_id NOT IN (TABLE own))
      )
    UNION ALL
    SELECT NULL, NULL, e.evidence_id, e.scope_id, h.are_open AND memory.is_held_observation(p_agent, e.scope_id, e.seq)
    FROM own
    JOIN memory.evidence e USING (run_id)
    CROSS JOIN holds h
    WHERE e.agent_key = p_agent AND (e.scope_id, e.seq) NOT IN (TABLE brought)
$$;

COMMENT ON FUNCTION memory.imported_beside IS
    'What an import brought besides its observations: messages, and evidence for what stays; one row for each.';
