CREATE OR REPLACE VIEW memory.v_imports WITH (security_invoker = true) AS
SELECT
    i.import_id,
    i.source AS store,
    i.state,
    i.started_at,
    c.collection,
    (c.counts ->> 'source')::bigint AS source,
    (c.counts ->> 'migrated')::bigint AS migrated,
    (c.counts ->> 'merged')::bigint AS merged,
    (c.counts ->> 'skipped')::bigint AS skipped,
    (c.counts ->> 'rejected')::bigint AS rejected
FROM memory.imports i
CROSS JOIN LATERAL jsonb_each(i.accounts -> 'collections') AS c (collection, counts);
COMMENT ON VIEW memory.v_imports IS
    'One row per import and collection: documents, and how many were migrated, merged, skipped and rejected.';
