-- memory.end_of_day(day, zone): the moment at which a calendar day is over in a time zone; in UTC, where the database doesn't
-- know the zone. It never raises: the zone is an agent's own word.
CREATE OR REPLACE FUNCTION memory.end_of_day(p_day date, p_zone text) RETURNS timestamptz
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED AS $$
BEGIN
    RETURN (p_day + 1)::timestamp AT TIME ZONE p_zone;
EXCEPTION WHEN invalid_parameter_value THEN
    RETURN (p_day + 1)::timestamp AT TIME ZONE 'UTC';
END
$$;

COMMENT ON FUNCTION memory.end_of_day IS 'When a calendar day is over in a time zone; one value.';
