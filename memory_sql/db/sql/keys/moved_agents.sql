-- memory.moved_agents: what refuses an agent here, from the last moment of its move to another shard on. While its rows are still here,
-- triggers made for it alone keep everybody from changing them: the rows of other agents pay for a comparison of two numbers.
-- Once they are deleted, nobody creates it here again.
--
-- memory.is_copying(): whether this transaction moves an agent, so that triggers leave rows as they come. Only the session of an owner
-- can; it isn't asked of the current user, who is another in functions that run as their owner. One value.
CREATE OR REPLACE FUNCTION memory.is_copying() RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT coalesce(current_setting('memory.copying', true), '') = 'on'
        AND pg_has_role(session_user, (SELECT c.relowner FROM pg_class c WHERE c.oid = 'memory.agents'::regclass), 'USAGE')
$$;

COMMENT ON FUNCTION memory.is_copying IS 'Whether this transaction moves an agent to another shard; one value.';

-- memory.refuse_moved(…): trigger, for the rows of one agent. Its arguments are the commands that are passed over instead: what counts
-- reads, and what maintenance does for all agents at once.
CREATE OR REPLACE FUNCTION memory.refuse_moved() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF memory.is_copying() THEN
        IF TG_OP = 'DELETE' THEN
            RETURN OLD;
        END IF;
        RETURN NEW;
    ELSIF TG_OP = ANY (TG_ARGV) THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'the agent is moving to another shard' USING ERRCODE = 'MS001';
END
$$;

COMMENT ON FUNCTION memory.refuse_moved IS 'Keeps the rows of an agent that moves as they are.';

-- memory.fence_agent(agent, shard): from the end of this transaction on nobody changes anything of the agent, which moves there. It
-- waits for everybody who is writing: nobody writes to any table of memory meanwhile, so a short lock_timeout belongs around it. Only
-- the owner may.
CREATE OR REPLACE FUNCTION memory.fence_agent(p_agent text, p_shard text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, memory, pg_temp AS $$
DECLARE
    v_key bigint;
    v_table record;
BEGIN
    INSERT INTO memory.moved_agents (agent_id, moved_key, shard)
    SELECT a.agent_id, a.agent_key, p_shard FROM memory.agents a WHERE a.agent_id = p_agent
    RETURNING moved_key INTO STRICT v_key;
    FOR v_table IN
        SELECT c.oid::regclass AS name, CASE c.relname
            WHEN 'retrievals' THEN '''INSERT'', ''UPDATE'', ''DELETE'''
            WHEN 'observation_retrievals' THEN '''INSERT'', ''UPDATE'', ''DELETE'''
            WHEN 'observation_vectors' THEN '''INSERT'', ''UPDATE'', ''DELETE'''
            WHEN 'observation_feedback' THEN '''DELETE'''
            WHEN 'links' THEN '''UPDATE'''
            ELSE ''
        END AS passed_over
        FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'agent_key' AND NOT a.attisdropped
        WHERE c.relnamespace = 'memory'::regnamespace AND c.relkind IN ('r', 'p')
        ORDER BY c.relname
    LOOP
        EXECUTE format(
            'CREATE TRIGGER %I BEFORE INSERT OR UPDATE ON %s FOR EACH ROW WHEN (NEW.agent_key = %s) EXECUTE FUNCTION memory.refuse_moved(%s)',
            format('a_moved_%s', v_key), v_table.name, v_key, v_table.passed_over
        );
        EXECUTE format(
            'CREATE TRIGGER %I BEFORE DELETE ON %s FOR EACH ROW WHEN (OLD.agent_key = %s) EXECUTE FUNCTION memory.refuse_moved(%s)',
            format('a_moved_%s_away', v_key), v_table.name, v_key, v_table.passed_over
        );
    END LOOP;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.fence_agent(text, text) FROM PUBLIC;

COMMENT ON FUNCTION memory.fence_agent IS 'Keeps everybody from changing anything of an agent that moves to another shard.';

-- memory.drop_fence(agent): takes the next of the triggers away, whether the agent goes on here or has gone; returns whether there was
-- one. Each in a transaction of its own: nobody reads the table meanwhile. Only the owner may.
CREATE OR REPLACE FUNCTION memory.drop_fence(p_agent text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, memory, pg_temp AS $$
DECLARE
    v_trigger record;
BEGIN
    SELECT t.tgname AS name, t.tgrelid::regclass AS of_table INTO v_trigger
    FROM memory.moved_agents m
    JOIN pg_trigger t ON t.tgname IN (format('a_moved_%s', m.moved_key), format('a_moved_%s_away', m.moved_key))
    JOIN pg_class c ON c.oid = t.tgrelid
    WHERE m.agent_id = p_agent AND c.relnamespace = 'memory'::regnamespace
    ORDER BY c.relname, t.tgname
    LIMIT 1;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    EXECUTE format('DROP TRIGGER %I ON %s', v_trigger.name, v_trigger.of_table);
    RETURN true;
END
$$;

REVOKE EXECUTE ON FUNCTION memory.drop_fence(text) FROM PUBLIC;

COMMENT ON FUNCTION memory.drop_fence IS 'Takes away the next trigger of those that keep an agent from changing; whether there was one.';

-- memory.refuse_return(): trigger. Who looked for an agent before it moved, and comes late, doesn't create it here anew.
CREATE OR REPLACE FUNCTION memory.refuse_return() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM memory.moved_agents m WHERE m.agent_id = NEW.agent_id) THEN
        RAISE EXCEPTION 'the agent has moved to another shard' USING ERRCODE = 'MS001';
    END IF;
    RETURN NEW;
END
$$;

COMMENT ON FUNCTION memory.refuse_return IS 'Keeps an agent that has moved to another shard from being created anew.';

CREATE OR REPLACE TRIGGER agents_stay_away BEFORE INSERT ON memory.agents
FOR EACH ROW EXECUTE FUNCTION memory.refuse_return();
