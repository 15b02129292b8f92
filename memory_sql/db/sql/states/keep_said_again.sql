-- memory.keep_said_again(): trigger. When an observation was said again stands with the observation too, where indexes can use it.
-- Said again, it is hot.
CREATE OR REPLACE FUNCTION memory.keep_said_again() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    v_key memory.observation_states := CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
    v_at timestamptz := CASE TG_OP WHEN 'DELETE' THEN NULL ELSE v_key.said_again_at END;
BEGIN
    UPDATE memory.observations o
    SET said_again_at = v_at, cold = o.cold AND NOT coalesce(v_at > coalesce(o.said_again_at, '-infinity'), false)
    WHERE o.agent_key = v_key.agent_key AND o.scope_id = v_key.scope_id AND o.seq = v_key.seq
      AND o.said_again_at IS DISTINCT FROM v_at;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION memory.keep_said_again IS 'Keeps when an observation was said again where indexes can use it.';

CREATE OR REPLACE TRIGGER observation_states_say_again_first AFTER INSERT ON memory.observation_states
FOR EACH ROW WHEN (NEW.said_again_at IS NOT NULL) EXECUTE FUNCTION memory.keep_said_again();

CREATE OR REPLACE TRIGGER observation_states_say_again AFTER UPDATE OF said_again_at ON memory.observation_states
FOR EACH ROW WHEN (OLD.said_again_at IS DISTINCT FROM NEW.said_again_at) EXECUTE FUNCTION memory.keep_said_again();

CREATE OR REPLACE TRIGGER observation_states_say_no_more AFTER DELETE ON memory.observation_states
FOR EACH ROW WHEN (OLD.said_again_at IS NOT NULL) EXECUTE FUNCTION memory.keep_said_again();
