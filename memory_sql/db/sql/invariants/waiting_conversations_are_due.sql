-- A conversation with enough unformed messages, or with one that carries a signal, has a due time, unless it is excluded or
-- was given up: no message is left behind. If the agent has no setting of its own, that of the process which last checked
-- the conversation applies (waits_below).
SELECT
    a.agent_id,
    'conversation ' || s.conversation_id AS key,
    format('%s messages wait after number %s', s.unformed_messages, s.formed_number) AS detail
FROM memory.conversations s
JOIN memory.agents a USING (agent_key)
WHERE s.due_at IS NULL AND s.dead_run_id IS NULL AND NOT s.excluded AND s.unformed_messages > 0
  AND (
      s.unformed_messages >= memory.number_setting(
          a.settings,
          'formation_min_messages',
          CASE s.waits_below WHEN 2147483647 THEN :min_messages ELSE s.waits_below END
      )
      OR EXISTS (
          SELECT FROM memory.messages m
          WHERE m.agent_key = s.agent_key AND m.conversation_id = s.conversation_id AND m.number > s.formed_number
            AND m.eligible AND m.signal IS NOT NULL
      )
  )
