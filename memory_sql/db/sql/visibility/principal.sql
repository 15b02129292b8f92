-- memory.principal(): on whose behalf this transaction works, as set by memory.enter(); null if it wasn't set. Every
-- row-level policy calls it, so without a principal there are no rows. The setting is bound to its transaction by the time
-- at which the transaction began: what was left behind on a pooled connection (a SET for the session, another transaction's
-- setting) matches no later transaction. The value is an object: {"agent", "user", "conversation"} for a user, {"serves":
-- agent} for the library's own work for one agent, {"serves_all": true} for its work for all agents. The setting has the
-- time before the object, and the object isn't parsed if the time is another: garbage in the setting means no principal, not
-- an error.
CREATE OR REPLACE FUNCTION memory.principal() RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN split_part(current_setting('memory.principal', true), ' ', 1) = extract(epoch FROM transaction_timestamp())::text
        THEN substr(
            current_setting('memory.principal', true), strpos(current_setting('memory.principal', true), ' ') + 1
        )::jsonb
    END
$$;

COMMENT ON FUNCTION memory.principal() IS
    'On whose behalf this transaction works: a user of an agent, or the library itself; null: no principal was named.';

-- memory.enter(agent, user, conversation, service): names the principal until the transaction ends or memory.leave(…) is
-- called; returns the previous setting, for memory.leave. Without service the principal is a user, who may read what they
-- may see. With service it is the library's own work, which may read and write: for that agent, or for all agents if the
-- agent is null.
CREATE OR REPLACE FUNCTION memory.enter(p_agent text, p_user text, p_conversation text, p_service boolean) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_before text := current_setting('memory.principal', true);
BEGIN
    PERFORM set_config(
        'memory.principal',
        extract(epoch FROM transaction_timestamp())::text || ' ' || CASE
            WHEN NOT p_service THEN jsonb_build_object('agent', p_agent, 'user', p_user, 'conversation', p_conversation)
            WHEN p_agent IS NULL THEN jsonb_build_object('serves_all', true)
            ELSE jsonb_build_object('serves', p_agent)
        END::text,
        true
    );
    RETURN v_before;
END
$$;

COMMENT ON FUNCTION memory.enter IS 'Names the principal of this transaction; returns the previous setting, for memory.leave.';

-- memory.serve(agent): memory.enter for the library's own work for that agent, used by functions that write and name their
-- principal themselves. Raises an error in a transaction that works for a user or for another agent.
CREATE OR REPLACE FUNCTION memory.serve(p_agent text) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_named jsonb := memory.principal();
BEGIN
    IF v_named IS NOT NULL AND NOT (v_named ? 'serves_all' OR v_named @> jsonb_build_object('serves', p_agent)) THEN
        RAISE EXCEPTION 'this transaction works for a user or for another agent, and adds nothing to this one'
            USING ERRCODE = 'insufficient_privilege', HINT = 'Call memory.leave(…) or memory.enter(…) before, or Memory.add.';
    END IF;
    RETURN memory.enter(p_agent, NULL, NULL, true);
END
$$;

COMMENT ON FUNCTION memory.serve(text) IS
    'Names the library''s own work for that agent as the principal; returns the previous setting, for memory.leave.';

-- memory.asks_for(agent, user): whether this transaction may ask what that user sees. A transaction that was entered as a
-- user may ask only for that user. Any other may ask for everybody, as functions that take the user as an argument do.
-- memory.visible_scopes and memory.visible_conversations call this.
CREATE OR REPLACE FUNCTION memory.asks_for(p_agent text, p_user text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(
        NOT memory.principal() ? 'user' OR memory.principal() @> jsonb_build_object('agent', p_agent, 'user', p_user), true
    )
$$;

COMMENT ON FUNCTION memory.asks_for IS 'Whether this transaction may ask what that user sees: false if it was entered as another user.';

-- memory.leave(before): restores the setting that memory.enter(…) returned.
CREATE OR REPLACE FUNCTION memory.leave(p_before text) RETURNS void
LANGUAGE sql VOLATILE AS $$
    SELECT set_config('memory.principal', coalesce(p_before, ''), true)
$$;

COMMENT ON FUNCTION memory.leave IS 'Restores the principal that was named before.';
