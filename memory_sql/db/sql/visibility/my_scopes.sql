-- memory.my_scopes(): the scopes that the principal of this transaction may see, by memory.visible_scopes; empty for nobody
-- and for the library's own work, which my_agent, my_user_ids, my_left_groups, served_agent and serves_all are there for. These are what row-level
-- policies compare with. They run as their owner, or reading scopes would ask the policy of scopes, which asks them; they
-- take no argument, so they tell a caller nothing but what belongs to the principal. In PL/pgSQL, which keeps their plans:
-- each statement asks them several times.
CREATE OR REPLACE FUNCTION memory.my_scopes() RETURNS bigint[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
AS $$
DECLARE
    v_named jsonb := memory.principal();
BEGIN
    RETURN ARRAY(
        SELECT v.scope_id
        FROM memory.visible_scopes(v_named ->> 'agent', v_named ->> 'user', v_named ->> 'conversation') v
    );
END
$$;

COMMENT ON FUNCTION memory.my_scopes IS 'The scopes that the user may see on whose behalf this transaction works.';

-- memory.my_agent(): the key of the user's agent.
CREATE OR REPLACE FUNCTION memory.my_agent() RETURNS bigint
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
AS $$
BEGIN
    RETURN (SELECT a.agent_key FROM memory.agents a WHERE a.agent_id = memory.principal() ->> 'agent');
END
$$;

COMMENT ON FUNCTION memory.my_agent IS 'The key of the agent whose user this transaction works for.';

-- memory.served_agent(): the key of the agent that the library works for.
CREATE OR REPLACE FUNCTION memory.served_agent() RETURNS bigint
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
AS $$
BEGIN
    RETURN (SELECT a.agent_key FROM memory.agents a WHERE a.agent_id = memory.principal() ->> 'serves');
END
$$;

COMMENT ON FUNCTION memory.served_agent IS 'The key of the one agent that the library itself works for.';

-- memory.serves_all(): whether the library works for all agents: claiming what is due, verify, the backlog.
CREATE OR REPLACE FUNCTION memory.serves_all() RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT coalesce((memory.principal() ->> 'serves_all')::boolean, false)
$$;

COMMENT ON FUNCTION memory.serves_all IS 'Whether this transaction is the library''s own work for all agents.';

-- memory.my_user_ids(): the ids that the user goes by.
CREATE OR REPLACE FUNCTION memory.my_user_ids() RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
AS $$
BEGIN
    RETURN ARRAY(SELECT i.user_id FROM memory.user_ids(memory.my_agent(), memory.principal() ->> 'user') i);
END
$$;

COMMENT ON FUNCTION memory.my_user_ids IS 'The ids of the user on whose behalf this transaction works.';

-- memory.my_left_groups(): the groups that the user has left.
CREATE OR REPLACE FUNCTION memory.my_left_groups() RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, memory, pg_temp
AS $$
BEGIN
    RETURN ARRAY(SELECT l.group_id FROM memory.left_groups(memory.my_agent(), memory.principal() ->> 'user') l);
END
$$;

COMMENT ON FUNCTION memory.my_left_groups IS 'The groups that the user has left on whose behalf this transaction works.';
