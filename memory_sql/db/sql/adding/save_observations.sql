-- memory.save_observations(agent_key, drafts, run, at, replaced): numbers and stores what is new of these drafts, and
-- adds evidence to what isn't. One row per draft, by its `place`. The caller has locked the scopes. A draft is an
-- object: place, owner and name of its scope, digest (hex, of the normal form of its text; null: like nothing else), evidence
-- (objects), columns of memory.observations, and `deduplicate`: what counts as known.
-- By `newest`, and where there is none: what the scope learnt last, if it is in use, undisputed, not about to be replaced
-- (`replaced`, its number), no part of another, of the same fact key, lane and days, over on the same day. Anything older is stored again: between "tea" and
-- "tea" somebody may have said "coffee", and the last word counts; a consolidation that supersedes the first "tea" may never come.
-- By `scope`: also anything older of which that is true, if the draft says nothing that it doesn't: it is of the absorb lane, no less
-- private (what the host says makes it so afterwards), has all tags, metadata and subjects, and is meant for the same wider scope;
-- and it waits, or its scope's text still says it (memory.still_says). Its evidence then says that it was said again, and when
-- (memory.count_said_again), so that it comes after the coffee. By `off`: nothing.
-- Known is also what stands in the batch already, and what is set aside: it doesn't
-- come back, unless it is withdrawn, and said again. And what the same message has come to before, where it is read again, whatever
-- has become of that; but not where it gave way to nothing that is left.
CREATE OR REPLACE FUNCTION memory.save_observations(
    p_agent bigint, p_drafts jsonb, p_run bigint, p_at timestamptz, p_replaced integer
) RETURNS TABLE (place integer, scope_id bigint, seq integer, is_new boolean)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_levels text[] := ARRAY['public', 'private', 'sensitive'];
BEGIN
    RETURN QUERY
    WITH given AS MATERIALIZED (
        SELECT (d.value ->> 'place')::integer AS place, d.value AS draft, s.scope_id AS scope, s.last_seq AS last,
               s.language AS words, s.done_seq, d.value ->> 'lane' AS goes,
               coalesce(d.value ->> 'deduplicate', 'newest') AS by, (d.value ->> 'dates')::datemultirange AS days,
               memory.content_hash(s.scope_id, decode(d.value ->> 'digest', 'hex')) AS hash
        FROM jsonb_array_elements(p_drafts) d
        CROSS JOIN LATERAL (  -- by itself, here as elsewhere: no plan may read all scopes of the agent
            SELECT s.scope_id, s.last_seq, s.done_seq, s.language
            FROM memory.scopes s
            WHERE s.agent_key = p_agent AND s.owner = d.value ->> 'owner' AND s.name = d.value ->> 'name' LIMIT 1
        ) s
    ), aside AS MATERIALIZED (
        SELECT g.*, (
            SELECT max(o.seq)
            FROM memory.observations o
            WHERE o.agent_key = p_agent AND o.scope_id = g.scope AND o.content_hash = g.hash
              AND o.standing IN ('quarantined', 'given_up')  -- of memory.is_aside
        ) AS aside
        FROM given g
    ), same AS MATERIALIZED (
        SELECT g.*, CASE WHEN g.aside IS NULL THEN (
            SELECT o.seq
            FROM memory.observations o
            LEFT JOIN memory.observation_states t ON t.agent_key = p_agent AND t.scope_id = g.scope AND t.seq = o.seq
            WHERE o.agent_key = p_agent AND o.scope_id = g.scope AND o.content_hash = g.hash AND o.standing = 'active'
              AND o.dates IS NOT DISTINCT FROM g.days
              AND o.seq IS DISTINCT FROM p_replaced
              AND o.part_of IS NULL
              AND o.lane = g.goes
              AND (g.draft ->> 'fact_key' IS NULL OR g.draft ->> 'fact_key' IS NOT DISTINCT FROM o.fact_key)
              AND (g.draft ->> 'until' IS NULL OR (g.draft ->> 'until')::date IS NOT DISTINCT FROM o.until)
              AND memory.in_use(t.status)
              AND t.verification IS DISTINCT FROM 'disputed'
              AND CASE g.by WHEN 'newest' THEN o.seq = g.last WHEN 'scope' THEN o.seq = g.last OR o.lane = 'absorb' AND (
                  SELECT (o.confidential OR r.confidential IS NOT TRUE) AND (o.no_propagate OR r.no_propagate IS NOT TRUE)
                     AND (p_run IS NULL OR array_position(v_levels, o.sensitivity) >= array_position(v_levels, r.sensitivity))
                     AND (r.proposed IS NULL OR r.proposed IS NOT DISTINCT FROM o.proposed)
                     AND coalesce(r.tags <@ o.tags AND r.subjects <@ o.subjects, true) AND coalesce(o.metadata @> r.metadata, true)
                  FROM jsonb_populate_record(NULL::memory.observations, g.draft) r
              ) AND (o.seq > g.done_seq OR t.repend IS TRUE OR memory.still_says(p_agent, g.scope, o.seq)) ELSE false END
            ORDER BY o.seq DESC
            LIMIT 1
        ) END AS same
        FROM aside g
    ), looked AS MATERIALIZED (
        SELECT g.*, coalesce(g.aside, g.same, (
            SELECT max(o.seq)
            FROM jsonb_to_recordset(g.draft -> 'evidence') AS d (conversation_id text, number bigint)
            CROSS JOIN LATERAL (
                SELECT e.scope_id, e.seq
                FROM memory.evidence e
                WHERE e.agent_key = p_agent AND e.conversation_id = d.conversation_id AND e.number = d.number
                  AND e.repeated_seq IS NULL AND e.withdrawn_by IS NULL
                OFFSET 0
            ) e
            JOIN memory.observations o ON o.agent_key = p_agent AND o.scope_id = g.scope AND o.seq = e.seq
            LEFT JOIN memory.observation_states t ON t.agent_key = p_agent AND t.scope_id = g.scope AND t.seq = o.seq
            WHERE e.scope_id = g.scope AND o.content_hash = g.hash AND o.dates IS NOT DISTINCT FROM g.days AND o.lane = g.goes
              AND t.status IS DISTINCT FROM 'withdrawn'
              AND (t.status IS DISTINCT FROM 'superseded' OR EXISTS (
                  SELECT FROM (SELECT t.superseded_by AS seq) b
                  LEFT JOIN memory.observation_states n ON n.agent_key = p_agent AND n.scope_id = g.scope AND n.seq = b.seq
                  WHERE b.seq IS NOT NULL AND (n.status IS DISTINCT FROM 'superseded' OR n.superseded_by IS NOT NULL)
              ))
        )) AS known
        FROM same g
    ), batched AS (
        SELECT l.*, l.by = 'scope' AND l.same IS NOT NULL AND NOT EXISTS (  -- not where a message is read again
            SELECT FROM jsonb_to_recordset(l.draft -> 'evidence') AS d (conversation_id text, number bigint)
            JOIN memory.evidence e ON e.agent_key = p_agent AND e.conversation_id = d.conversation_id AND e.number = d.number
            WHERE e.scope_id = l.scope AND e.seq = l.same AND e.repeated_seq IS NULL
        ) AS again, CASE WHEN l.known IS NULL THEN min(l.place) FILTER (WHERE l.known IS NULL) OVER same END AS first
        FROM looked l
        WINDOW same AS (PARTITION BY l.scope, l.goes, coalesce(l.hash, int4send(l.place)), l.days)
    ), numbered AS (
        SELECT b.place, (b.last + row_number() OVER (PARTITION BY b.scope ORDER BY b.place))::integer AS number
        FROM batched b
        WHERE b.first = b.place
    ), placed AS MATERIALIZED (
        SELECT b.place, b.draft, b.scope, b.hash, b.words, b.same, b.last, coalesce(b.known, n.number) AS number,
               b.first IS NOT DISTINCT FROM b.place AS is_new, b.again OR b.by = 'scope' AND b.first <> b.place AS again
        FROM batched b
        LEFT JOIN numbered n ON n.place = b.first
    ), stored AS (
        INSERT INTO memory.observations (
            agent_key, scope_id, seq, content, observed_at, given_at, created_at, source_kind, conversation_id, speaker,
            message_ids, related_users, subjects, run_id, lane, category, kind, confidence, importance, classified_by, until,
            sensitivity, no_propagate, confidential, proposed, tags, metadata, content_hash, hash_version, language, search_extra, terms,
            dates, fact_key, categories, part_of
        )
        SELECT p_agent, p.scope, p.number, content, observed_at, given_at, p_at, source_kind, conversation_id, speaker,
               message_ids, related_users, subjects, p_run, lane, category, kind, confidence, importance, classified_by, until,
               sensitivity, no_propagate, confidential, proposed, tags, metadata, p.hash, hash_version, p.words, search_extra, terms,
               dates, fact_key, categories, part_of
        FROM placed p
        CROSS JOIN jsonb_populate_record(NULL::memory.observations, p.draft) r
        WHERE p.is_new
        ORDER BY p.place
    ), supported AS (  -- what an answer names twice supports it once
        INSERT INTO memory.evidence (
            agent_key, scope_id, seq, conversation_id, number, user_id, run_id, created_at, said_at, confidence, apart
        )
        SELECT p_agent, p.scope, p.number, e.conversation_id, e.number, e.user_id, p_run, p_at,
               CASE WHEN bool_and(p.again) THEN max((p.draft ->> 'observed_at')::timestamptz) END,
               CASE WHEN bool_and(p.again) THEN max((p.draft ->> 'confidence')::double precision) END,
               coalesce(bool_and(p.again AND p.same < p.last), false)
        FROM placed p
        CROSS JOIN jsonb_to_recordset(p.draft -> 'evidence') AS e (conversation_id text, number bigint, user_id text)
        GROUP BY p.scope, p.number, e.conversation_id, e.number, e.user_id
        ORDER BY min(p.place), e.number
    ), kept AS (  -- what takes the place of another has its policy
        INSERT INTO memory.observation_states (agent_key, scope_id, seq, status_at, policy)
        SELECT p_agent, p.scope, p.number, p_at, t.policy
        FROM placed p
        JOIN memory.observation_states t ON t.agent_key = p_agent AND t.scope_id = p.scope AND t.seq = p_replaced
        WHERE p.is_new AND t.policy <> 'durable'
    ), counted AS (
        UPDATE memory.scopes s
        SET last_seq = coalesce(n.last, s.last_seq), last_activity_at = p_at,
            speakers = CASE WHEN n.last IS NULL THEN s.speakers ELSE memory.newest_speakers(n.speakers || s.speakers) END
        FROM (
            SELECT p.scope, max(p.number) FILTER (WHERE p.is_new) AS last,
                   array_agg(p.draft ->> 'speaker' ORDER BY p.place DESC) FILTER (WHERE p.is_new) AS speakers
            FROM placed p WHERE p.is_new OR p.again GROUP BY p.scope
        ) n
        WHERE s.agent_key = p_agent AND s.scope_id = n.scope
    )
    SELECT p.place, p.scope, p.number, p.is_new FROM placed p ORDER BY p.place;
END
$$;
COMMENT ON FUNCTION memory.save_observations(bigint, jsonb, bigint, timestamptz, integer) IS
    'Stores what is new of these drafts and adds evidence to what is known; one row per draft.';
