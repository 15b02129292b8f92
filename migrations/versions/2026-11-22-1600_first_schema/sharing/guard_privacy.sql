CREATE OR REPLACE FUNCTION memory.guard_privacy() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT memory.is_copying() AND EXISTS (
        SELECT FROM memory.lineage l
        WHERE l.agent_key = NEW.agent_key AND l.source_scope_id = NEW.scope_id AND l.source_seq = NEW.seq
          AND NOT EXISTS (
              SELECT FROM memory.observation_states t
              WHERE t.agent_key = l.agent_key AND t.scope_id = l.scope_id AND t.seq = l.seq AND t.withdrawn_by IS NOT NULL
          )
    ) THEN
        RAISE EXCEPTION 'observation o%-% has spread; what was derived from it has to be erased first', NEW.scope_id, NEW.seq
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION memory.guard_privacy IS 'Refuses to make an observation more private while others derived from it are still shown.';
CREATE OR REPLACE TRIGGER observations_guard_privacy
BEFORE UPDATE OF no_propagate, confidential, sensitivity ON memory.observations
FOR EACH ROW WHEN (
    (NEW.no_propagate AND NOT OLD.no_propagate) OR (NEW.confidential AND NOT OLD.confidential)
    OR array_position('{public,private,sensitive}'::text[], NEW.sensitivity)
        > array_position('{public,private,sensitive}'::text[], OLD.sensitivity)
)
EXECUTE FUNCTION memory.guard_privacy();
