-- memory.refuse_change(): trigger. What was remembered and what was written of it never change; a correction is a new row.
CREATE OR REPLACE FUNCTION memory.refuse_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of %.% never change', TG_TABLE_SCHEMA, TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END
$$;

COMMENT ON FUNCTION memory.refuse_change IS 'Keeps observations, consolidated texts and prompts as they were written.';

CREATE OR REPLACE TRIGGER observations_never_change
BEFORE UPDATE OF content, observed_at, content_hash, hash_version ON memory.observations
FOR EACH ROW WHEN (
    (OLD.content, OLD.observed_at, OLD.content_hash, OLD.hash_version)
    IS DISTINCT FROM (NEW.content, NEW.observed_at, NEW.content_hash, NEW.hash_version)
)
EXECUTE FUNCTION memory.refuse_change();

CREATE OR REPLACE TRIGGER consolidations_never_change
BEFORE UPDATE ON memory.consolidations
FOR EACH ROW WHEN (
    (OLD.version, OLD.base, OLD.from_seq, OLD.to_seq, OLD.extra_seqs, OLD.passed_seqs, OLD.content, OLD.created_at)
    IS DISTINCT FROM (NEW.version, NEW.base, NEW.from_seq, NEW.to_seq, NEW.extra_seqs, NEW.passed_seqs, NEW.content, NEW.created_at)
)
EXECUTE FUNCTION memory.refuse_change();

CREATE OR REPLACE TRIGGER prompts_never_change BEFORE UPDATE ON memory.prompts
FOR EACH ROW EXECUTE FUNCTION memory.refuse_change();
