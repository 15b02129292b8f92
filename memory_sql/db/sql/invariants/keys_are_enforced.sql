-- The keys that prevent duplicates exist: a primary key on each table, and the unique indexes.
SELECT NULL AS agent_id, 'table ' || c.relname AS key, '0 primary keys' AS detail
FROM pg_class c
WHERE c.relnamespace = 'memory'::regnamespace AND c.relkind IN ('r', 'p')
  AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
UNION ALL
SELECT NULL, 'index ' || k.name, format('%s unique indexes', coalesce(i.indisunique::int, 0))
FROM (VALUES
    ('agents_agent_id_key'),
    ('scopes_agent_key_owner_name_key'),
    ('members_scope_id_user_id_key'),
    ('messages_agent_key_message_id_conversation_id_key'),
    ('consolidations_from_seq_key')
) k (name)
LEFT JOIN pg_index i ON i.indexrelid = to_regclass('memory.' || k.name)
WHERE i.indisunique IS NOT TRUE
