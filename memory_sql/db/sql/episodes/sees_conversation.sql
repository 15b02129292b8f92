-- memory.sees_conversation(agent, user, conversation): whether a principal may see this conversation (memory.visible_conversations). It is
-- planned for this one: joined, or by a plan for any, all that the user takes part in would be read. One value.
CREATE OR REPLACE FUNCTION memory.sees_conversation(p_agent text, p_user text, p_conversation text) RETURNS boolean
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    RETURN EXISTS (SELECT FROM memory.visible_conversations(p_agent, p_user, NULL, p_conversation));
END
$$;

COMMENT ON FUNCTION memory.sees_conversation IS 'Whether a user of an agent may see a conversation; one value.';
