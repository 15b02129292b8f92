-- A version names contradictions and repetitions of what it read, its range and its extras, with that or with what a text had
-- absorbed before, and never of one with itself; so what it let give way can be brought back with it.
SELECT
    a.agent_id,
    format('s%sv%s', c.scope_id, c.version) AS key,
    format('%s contradicts %s, it read from %s to %s and %s extras', i.newer, coalesce(i.older::text, 'the text'),
           c.from_seq, c.to_seq, cardinality(c.extra_seqs)) AS detail
FROM memory.consolidations c
JOIN memory.agents a USING (agent_key)
CROSS JOIN LATERAL jsonb_to_recordset(c.contradictions || c.repetitions) AS i (newer integer, older integer)
WHERE i.newer IS NULL OR i.newer = i.older
   OR NOT (i.newer > c.from_seq AND i.newer <= c.to_seq OR i.newer = ANY (c.extra_seqs))
   OR NOT i.older BETWEEN 1 AND c.to_seq
