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
CREATE OR REPLACE FUNCTION memory.asks_for(p_agent text, p_user text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(
        NOT memory.principal() ? 'user' OR memory.principal() @> jsonb_build_object('agent', p_agent, 'user', p_user), true
    )
$$;
COMMENT ON FUNCTION memory.asks_for IS 'Whether this transaction may ask what that user sees: false if it was entered as another user.';
CREATE OR REPLACE FUNCTION memory.leave(p_before text) RETURNS void
LANGUAGE sql VOLATILE AS $$
    SELECT set_config('memory.principal', coalesce(p_before, ''), true)
$$;
COMMENT ON FUNCTION memory.leave IS 'Restores the principal that was named before.';
