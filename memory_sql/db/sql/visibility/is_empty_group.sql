-- memory.is_empty_group(agent_key, owner): whether this group has no members, so that nobody is shown what it knows.
CREATE OR REPLACE FUNCTION memory.is_empty_group(p_agent bigint, p_owner text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT NOT EXISTS (
        SELECT FROM memory.scopes g
        JOIN memory.members m ON m.agent_key = p_agent AND m.scope_id = g.scope_id AND m.left_at IS NULL
        WHERE g.agent_key = p_agent AND g.owner = p_owner AND g.name = ''
    )
$$;

COMMENT ON FUNCTION memory.is_empty_group IS 'Whether a group has no members; true if it does not exist.';
