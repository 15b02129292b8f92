CREATE OR REPLACE FUNCTION memory.sees_conversation(p_agent text, p_user text, p_conversation text) RETURNS boolean
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    RETURN EXISTS (SELECT FROM memory.visible_conversations(p_agent, p_user, NULL, p_conversation));
END
$$;
COMMENT ON FUNCTION memory.sees_conversation IS 'Whether a user of an agent may see a conversation; one value.';
