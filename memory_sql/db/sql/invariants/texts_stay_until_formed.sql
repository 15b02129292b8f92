-- A message loses its text only after a formation has read it, or if none ever will. Then its speaker and its search words
-- are gone too. Where a formation is to read it again, since another message was replaced, a retired one has read it. The sweep knows of every message that has its text: text_since of its conversation isn't later.
SELECT
    a.agent_id,
    format('conversation %s, message %s', s.conversation_id, m.number) AS key,
    CASE
        WHEN m.content IS NOT NULL THEN format('has its text since %s, its conversation says %s', m.created_at,
                                               coalesce(s.text_since::text, 'none has'))
        WHEN m.eligible AND m.number > s.formed_number THEN 'no text, and it waits to be formed'
        ELSE 'no text, but a speaker or words for searching'
    END AS detail
FROM memory.messages m
JOIN memory.conversations s USING (agent_key, conversation_id)
JOIN memory.agents a USING (agent_key)
WHERE CASE
    WHEN m.content IS NOT NULL THEN m.created_at < s.text_since OR s.text_since IS NULL
    ELSE m.eligible AND m.number > s.formed_number AND NOT EXISTS (
            SELECT FROM memory.runs r
            WHERE (r.agent_key, r.conversation_id, r.state) = (m.agent_key, m.conversation_id, 'retired')
              AND r.from_number < m.number AND r.to_number >= m.number
        )
        OR m.speaker IS NOT NULL OR m.search_extra <> ''
END
