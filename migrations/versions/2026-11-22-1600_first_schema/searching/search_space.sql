CREATE OR REPLACE FUNCTION memory.search_space(p_scope bigint, p_seq integer, p_standing text, p_cold boolean) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE WHEN p_standing = 'superseded' THEN -(p_scope * 524288 + p_seq / 4096) WHEN p_cold THEN p_scope + 4611686018427387904
                ELSE p_scope END
$$;
COMMENT ON FUNCTION memory.search_space IS 'Whose words those of an observation are in the text index; one value.';
