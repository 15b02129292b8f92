-- In each contradiction or repetition that a version names, the newer observation is one that the version read (in its range
-- or its extras), and the older one was read by it or absorbed by an earlier text. No observation contradicts or repeats
-- itself. So undoing the version can reinstate what it superseded. A recheck compares what earlier texts have absorbed.
SELECT
    a.agent_id,
    format('s%sv%s', c.scope_id, c.version) AS key,
    format('%s contradicts %s, it read from %s to %s and %s extras', i.newer, coalesce(i.older::text, 'the text'),
           c.from_seq, c.to_seq, cardinality(c.extra_seqs)) AS detail
FROM memory.consolidations c
JOIN memory.agents a USING (agent_key)
CROSS JOIN LATERAL jsonb_to_recordset(c.contradictions || c.repetitions) AS i (newer integer, older integer)
WHERE i.newer IS NULL OR i.newer = i.older
   OR NOT (i.newer > c.from_seq AND i.newer <= c.to_seq OR i.newer = ANY (c.extra_seqs)
           OR c.reason = 'recheck' AND i.newer BETWEEN 1 AND c.from_seq)
   OR NOT i.older BETWEEN 1 AND c.to_seq
