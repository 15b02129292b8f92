-- memory.search_space(scope_id, seq, standing, cold): whose words those of an observation are in the text index: its scope's; while it
-- is cold those of what else is cold there; or, once it is superseded, those of what else is superseded of about its number, apart from
-- what is in use. 4,096 numbers have one space.
CREATE OR REPLACE FUNCTION memory.search_space(p_scope bigint, p_seq integer, p_standing text, p_cold boolean) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE WHEN p_standing = 'superseded' THEN -(p_scope * 524288 + p_seq / 4096) WHEN p_cold THEN p_scope + 4611686018427387904
                ELSE p_scope END
$$;

COMMENT ON FUNCTION memory.search_space IS 'Whose words those of an observation are in the text index; one value.';
