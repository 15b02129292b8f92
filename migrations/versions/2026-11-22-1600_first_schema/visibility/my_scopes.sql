CREATE OR REPLACE FUNCTION memory.my_scopes() RETURNS bigint[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
DECLARE
    v_named jsonb := memory.principal();
BEGIN
    RETURN ARRAY(
        SELECT v.scope_id
        FROM memory.visible_scopes(v_named ->> 'agent', v_named ->> 'user', v_named ->> 'conversation') v
    );
END
$$;
COMMENT ON FUNCTION memory.my_scopes IS 'The scopes that the user on whose behalf this transaction works may see.';
CREATE OR REPLACE FUNCTION memory.my_agent() RETURNS bigint
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
BEGIN
    RETURN (SELECT a.agent_key FROM memory.agents a WHERE a.agent_id = memory.principal() ->> 'agent');
END
$$;
COMMENT ON FUNCTION memory.my_agent IS 'The key of the agent of the user on whose behalf this transaction works.';
CREATE OR REPLACE FUNCTION memory.served_agent() RETURNS bigint
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
BEGIN
    RETURN (SELECT a.agent_key FROM memory.agents a WHERE a.agent_id = memory.principal() ->> 'serves');
END
$$;
COMMENT ON FUNCTION memory.served_agent IS 'The key of the one agent for which the library itself works.';
CREATE OR REPLACE FUNCTION memory.serves_all() RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce((memory.principal() ->> 'serves_all')::boolean, false)
$$;
COMMENT ON FUNCTION memory.serves_all IS 'Whether this transaction is the library''s own work for all agents.';
CREATE OR REPLACE FUNCTION memory.my_user_ids() RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
BEGIN
    RETURN ARRAY(SELECT i.user_id FROM memory.user_ids(memory.my_agent(), memory.principal() ->> 'user') i);
END
$$;
COMMENT ON FUNCTION memory.my_user_ids IS 'The ids of the user on whose behalf this transaction works.';
CREATE OR REPLACE FUNCTION memory.my_groups() RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
BEGIN
    RETURN ARRAY(
        SELECT substr(g.owner, 3) FROM memory.members m
        CROSS JOIN LATERAL (SELECT g.owner FROM memory.scopes g WHERE g.agent_key = m.agent_key AND g.scope_id = m.scope_id LIMIT 1) g
        WHERE m.agent_key = memory.my_agent() AND m.user_id = ANY (memory.my_user_ids()) AND m.left_at IS NULL
    );
END
$$;
COMMENT ON FUNCTION memory.my_groups IS 'The groups of the user on whose behalf this transaction works.';
CREATE OR REPLACE FUNCTION memory.my_left_groups() RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, memory, pg_temp AS $$
DECLARE
    v_agent bigint := memory.my_agent();
    v_users text[] := memory.my_user_ids();
    v_groups text[] := ARRAY(
        SELECT DISTINCT unnest(c.group_ids) FROM memory.conversations c
        WHERE memory.user_tokens(c.agent_key, c.participants) && memory.user_tokens(v_agent, v_users)
          AND c.agent_key IS NOT DISTINCT FROM v_agent AND c.participants && v_users
    );
BEGIN
    RETURN ARRAY(SELECT l.group_id FROM memory.left_groups(v_agent, memory.principal() ->> 'user', NULL, v_groups) l);
END
$$;
COMMENT ON FUNCTION memory.my_left_groups IS 'Of the groups of the conversations of the user on whose behalf this transaction works, those that they have left.';
