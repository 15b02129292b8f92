-- memory.v_imports: the results of imports. One row per import and collection of the other store; an interrupted import has
-- no rows until it is finished. Only transactions that serve all agents see the rows.
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

COMMENT ON COLUMN memory.v_imports.import_id IS 'Number of the import; with collection the key of the view.';
COMMENT ON COLUMN memory.v_imports.store IS 'Name of the other store.';
COMMENT ON COLUMN memory.v_imports.state IS 'finished or rolled_back.';
COMMENT ON COLUMN memory.v_imports.started_at IS 'When the import began.';
COMMENT ON COLUMN memory.v_imports.collection IS 'The other store''s collection, by its newer name.';
COMMENT ON COLUMN memory.v_imports.source IS 'Documents in the collection; the sum of the next four columns.';
COMMENT ON COLUMN memory.v_imports.migrated IS 'Documents that were stored as records of their own.';
COMMENT ON COLUMN memory.v_imports.merged IS 'Documents that said the same as another one.';
COMMENT ON COLUMN memory.v_imports.skipped IS 'Documents that need no import.';
COMMENT ON COLUMN memory.v_imports.rejected IS 'Documents that couldn''t be imported; memory.import_rejects says why.';
