-- memory.imported_texts(agent_key, import_id): the versions of texts that an import brought to an agent, and the versions
-- that were rewritten from them. One row per version, live or undone.
CREATE OR REPLACE FUNCTION memory.imported_texts(p_agent bigint, p_import bigint)
RETURNS TABLE (scope_id bigint, version integer, live boolean)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE brought AS (
        SELECT c.scope_id, c.version, c.live
        FROM memory.runs r
        JOIN memory.consolidations c ON c.agent_key = r.agent_key AND c.scope_id = r.scope_id AND c.run_id = r.run_id
        WHERE r.agent_key = p_agent AND r.import_id = p_import
        UNION
        SELECT c.scope_id, c.version, c.live
        FROM brought b
        JOIN memory.consolidations c ON c.agent_key = p_agent AND c.scope_id = b.scope_id AND c.base = b.version
    )
    SELECT scope_id, version, live FROM brought
$$;

COMMENT ON FUNCTION memory.imported_texts IS
    'The versions of texts that an import brought, or that were rewritten from such a version; one row per version.';
