-- memory.count_said_again(): trigger. What evidence says of when an observation was said again, and how surely, stands with the
-- observation: `said_again_at` is the last of these times, unless that isn't after `observed_at`; `confidence` is that of the
-- surest evidence. Both depend on the evidence that is there alone, so that it makes no difference in which order some of it
-- comes and goes. How sure it was when it was stored is kept with the evidence for that, when it is said again first.
-- Whoever changes evidence holds the scope's row lock.
CREATE OR REPLACE FUNCTION memory.count_said_again() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    v_its memory.evidence := CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
    v_at timestamptz;
    v_confidence double precision;
    v_was record;
BEGIN
    IF memory.is_copying() THEN
        RETURN NULL;
    END IF;
    SELECT o.observed_at, o.created_at, o.said_again_at, o.confidence INTO v_was
    FROM memory.observations o
    WHERE o.agent_key = v_its.agent_key AND o.scope_id = v_its.scope_id AND o.seq = v_its.seq;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'INSERT' THEN  -- what there is already isn't read: it may be much
        v_at := greatest(v_was.said_again_at, v_its.said_at);
        v_confidence := greatest(v_was.confidence, v_its.confidence);
        IF v_was.confidence IS NOT NULL AND NOT EXISTS (
            SELECT FROM memory.evidence e
            WHERE e.agent_key = v_its.agent_key AND e.scope_id = v_its.scope_id AND e.seq = v_its.seq
              AND e.said_at IS NOT NULL AND e.evidence_id < v_its.evidence_id
        ) THEN
            UPDATE memory.evidence e SET confidence = v_was.confidence
            WHERE e.agent_key = v_its.agent_key AND e.scope_id = v_its.scope_id AND e.seq = v_its.seq
              AND e.said_at IS NULL AND e.confidence IS NULL AND e.repeated_seq IS NULL;
        END IF;
    ELSE
        SELECT max(e.said_at), max(e.confidence) INTO v_at, v_confidence
        FROM memory.evidence e
        WHERE e.agent_key = v_its.agent_key AND e.scope_id = v_its.scope_id AND e.seq = v_its.seq AND e.withdrawn_by IS NULL;
    END IF;
    v_at := CASE WHEN v_at > v_was.observed_at THEN v_at END;
    IF v_confidence IS DISTINCT FROM v_was.confidence THEN
        UPDATE memory.observations o SET confidence = v_confidence
        WHERE o.agent_key = v_its.agent_key AND o.scope_id = v_its.scope_id AND o.seq = v_its.seq;
    END IF;
    IF TG_OP = 'INSERT' THEN  -- somebody has confirmed it
        INSERT INTO memory.observation_states AS t (agent_key, scope_id, seq, status_at, said_again_at)
        SELECT v_its.agent_key, v_its.scope_id, v_its.seq, v_was.created_at, v_at WHERE v_at IS NOT NULL
        ON CONFLICT (agent_key, scope_id, seq) DO UPDATE
        SET said_again_at = excluded.said_again_at, stage = CASE t.stage WHEN 'archived' THEN 'candidate' ELSE t.stage END;
        UPDATE memory.observation_states t SET expires_at = NULL
        WHERE t.agent_key = v_its.agent_key AND t.scope_id = v_its.scope_id AND t.seq = v_its.seq AND t.expires_at IS NOT NULL;
    ELSE
        UPDATE memory.observation_states t SET said_again_at = v_at
        WHERE t.agent_key = v_its.agent_key AND t.scope_id = v_its.scope_id AND t.seq = v_its.seq
          AND t.said_again_at IS DISTINCT FROM v_at;
    END IF;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION memory.count_said_again IS 'Keeps with an observation when, and how surely, its evidence says it was said again.';

CREATE OR REPLACE TRIGGER evidence_says_again AFTER INSERT ON memory.evidence
FOR EACH ROW WHEN (NEW.said_at IS NOT NULL) EXECUTE FUNCTION memory.count_said_again();

CREATE OR REPLACE TRIGGER evidence_counts_again AFTER UPDATE OF withdrawn_by ON memory.evidence
FOR EACH ROW WHEN (
    (NEW.said_at IS NOT NULL OR NEW.confidence IS NOT NULL) AND (OLD.withdrawn_by IS NULL) <> (NEW.withdrawn_by IS NULL)
) EXECUTE FUNCTION memory.count_said_again();

CREATE OR REPLACE TRIGGER evidence_counts_no_more AFTER DELETE ON memory.evidence
FOR EACH ROW WHEN (OLD.said_at IS NOT NULL OR OLD.confidence IS NOT NULL) EXECUTE FUNCTION memory.count_said_again();
