-- The search vector of an observation or a message is what Postgres would now compute from its text. The column is
-- generated, so they can differ only after dictionaries have changed (a major upgrade) or a page was damaged, and then in
-- many rows at once. So every n-th row is checked, about 5,000 of each table. (Checking all of them would take half as long
-- as all other invariants together.)
SELECT
    a.agent_id,
    format('o%s-%s', o.scope_id, o.seq) AS key,
    format('%s lexemes stored', length(o.search)) AS detail
FROM memory.observations o
JOIN memory.agents a USING (agent_key)
WHERE (o.scope_id + o.seq) % (
        SELECT greatest(1, (reltuples / 5000)::bigint) FROM pg_class WHERE oid = 'memory.observations'::regclass
    ) = 0
  AND (
      o.search IS DISTINCT FROM strip(
          to_tsvector(('pg_catalog.' || o.language)::regconfig, left(o.content, 100000))
              || to_tsvector('pg_catalog.simple', left(o.search_extra, 100000))
      )
      OR o.cues IS DISTINCT FROM strip(to_tsvector(('pg_catalog.' || o.language)::regconfig, left(o.terms, 100000)))
  )
UNION ALL
SELECT
    a.agent_id,
    format('conversation %s, message %s', m.conversation_id, m.number),
    format('%s lexemes stored', length(m.search))
FROM memory.messages m
JOIN memory.agents a USING (agent_key)
WHERE (hashtext(m.conversation_id) + m.number) % (
        SELECT greatest(1, (reltuples / 5000)::bigint) FROM pg_class WHERE oid = 'memory.messages'::regclass
    ) = 0
  AND m.search IS DISTINCT FROM strip(
      to_tsvector(('pg_catalog.' || m.language)::regconfig, left(m.content, 100000))
          || to_tsvector('pg_catalog.simple', left(m.search_extra, 100000))
  )
