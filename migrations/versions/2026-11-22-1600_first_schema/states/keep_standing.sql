CREATE OR REPLACE FUNCTION memory.keep_standing() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    v_key memory.observation_states := CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
    v_standing text := CASE TG_OP WHEN 'DELETE' THEN 'active' ELSE v_key.status END;
BEGIN
    UPDATE memory.observations o SET standing = v_standing, cold = o.cold AND memory.is_found(v_standing)
    WHERE o.agent_key = v_key.agent_key AND o.scope_id = v_key.scope_id AND o.seq = v_key.seq AND o.standing <> v_standing;
    UPDATE memory.observation_vectors e SET standing = v_standing
    WHERE e.agent_key = v_key.agent_key AND e.scope_id = v_key.scope_id AND e.seq = v_key.seq AND e.standing <> v_standing;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION memory.keep_standing IS 'Keeps the status of an observation where indexes can use it.';
CREATE OR REPLACE TRIGGER observation_states_stand_first AFTER INSERT ON memory.observation_states
FOR EACH ROW WHEN (NEW.status <> 'active') EXECUTE FUNCTION memory.keep_standing();
CREATE OR REPLACE TRIGGER observation_states_stand AFTER UPDATE OF status ON memory.observation_states
FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION memory.keep_standing();
CREATE OR REPLACE TRIGGER observation_states_stand_no_more AFTER DELETE ON memory.observation_states
FOR EACH ROW WHEN (OLD.status <> 'active') EXECUTE FUNCTION memory.keep_standing();
CREATE OR REPLACE FUNCTION memory.keep_tier() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE memory.observation_vectors e SET cold = NEW.cold
    WHERE e.agent_key = NEW.agent_key AND e.scope_id = NEW.scope_id AND e.seq = NEW.seq AND e.cold <> NEW.cold;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION memory.keep_tier IS 'Keeps whether an observation is cold with its vectors.';
CREATE OR REPLACE TRIGGER observations_have_a_tier AFTER UPDATE OF standing, cold, said_again_at ON memory.observations
FOR EACH ROW WHEN (OLD.cold <> NEW.cold) EXECUTE FUNCTION memory.keep_tier();
CREATE OR REPLACE FUNCTION memory.keep_hot() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE memory.observations o SET cold = false
    WHERE o.agent_key = NEW.agent_key AND o.scope_id = NEW.scope_id AND o.seq = NEW.seq;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION memory.keep_hot IS 'Makes an observation hot that is protected from now on.';
CREATE OR REPLACE TRIGGER observation_states_protect AFTER INSERT OR UPDATE OF policy ON memory.observation_states
FOR EACH ROW WHEN (NEW.policy = 'protected') EXECUTE FUNCTION memory.keep_hot();
CREATE OR REPLACE FUNCTION memory.take_standing() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    SELECT o.standing, o.cold INTO NEW.standing, NEW.cold FROM memory.observations o
    WHERE o.agent_key = NEW.agent_key AND o.scope_id = NEW.scope_id AND o.seq = NEW.seq FOR SHARE;
    IF NOT FOUND THEN
        NEW.standing := 'active';
        NEW.cold := false;  -- the foreign key refuses it
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION memory.take_standing IS 'Gives a vector the standing and the tier of its observation.';
CREATE OR REPLACE TRIGGER observation_vectors_take_standing BEFORE INSERT ON memory.observation_vectors
FOR EACH ROW EXECUTE FUNCTION memory.take_standing();
