-- memory.forecast(agent, rules, defaults, at): in which stages an agent's observations would be at each of these times, and what
-- would be archived, resolved or evicted by then, if maintenance ran at each of them and nothing were said or used meanwhile.
-- `at` begins now and is in order. One row per time, with its place in `at`. Nothing is changed, locked or copied.
-- `rules`, `defaults`: those of memory.sweep_stages, memory.sweep_archival and memory.expiring, with `count_days`, after which uses
-- and feedback no longer count, and `archival`: whether that sweep is on. If not, what it would take keeps a stage.
--     candidate … archived  what is active or archived then, by stage; the state archived counts as that stage, as in v_lifecycle
--     protected             what of these no rule archives
--     aged                  what archival would have taken by then; resolved: what would be over since now; evicted: what is gone
-- A stage depends on the one before, since where no rule applies it stays. So at each time the last rule that has applied
-- decides, or today's stage; and archived is for good. Of expiry and archival the first one counts, or at the same time: expiry.
CREATE OR REPLACE FUNCTION memory.forecast(p_agent text, p_rules jsonb, p_defaults jsonb, p_at timestamptz[])
RETURNS TABLE (
    n bigint, candidate bigint, validated bigint, active bigint, stale bigint, archived bigint, protected bigint, aged bigint,
    resolved bigint, evicted bigint
)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    c_stages CONSTANT text[] := ARRAY['candidate', 'validated', 'active', 'stale', 'archived'];
    v_last CONSTANT timestamptz := p_at[cardinality(p_at)];
    v_protected CONSTANT text[] := ARRAY(SELECT jsonb_array_elements_text(p_rules -> 'protected'));
    v_counted CONSTANT interval := make_interval(days => (p_rules ->> 'count_days')::integer);
    v_archival CONSTANT boolean := (p_rules ->> 'archival')::boolean;
    v_promote CONSTANT float8 := p_rules ->> 'promote';
    v_stale CONSTANT float8 := p_rules ->> 'stale';
    v_archive CONSTANT float8 := p_rules ->> 'archive';
    v_uses CONSTANT bigint := p_rules ->> 'uses';
    v_agent bigint;
    v_commitment interval;
BEGIN
    SELECT a.agent_key, make_interval(
        secs => 86400 * nullif(memory.days_setting(a.settings, p_defaults, 'commitment_days'), 0)
    )
    INTO v_agent, v_commitment
    FROM memory.agents a WHERE a.agent_id = p_agent;
    RETURN QUERY
    WITH times AS MATERIALIZED (
        SELECT w.n, w.at, ((w.at - v_counted) AT TIME ZONE 'UTC')::date AS counted
        FROM unnest(p_at) WITH ORDINALITY w(at, n)
    ), expiring AS MATERIALIZED (
        SELECT d.scope_id, d.seq, CASE WHEN d.why = 'expired' THEN d.due_at END AS over_at,
               CASE WHEN d.why = 'expired' THEN d.due_at + v_commitment ELSE d.due_at END AS gone_at
        FROM memory.expiring(p_agent, p_defaults, v_last) d
    ), aging AS MATERIALIZED (  -- by all conditions but of uses, which are fewer later
        SELECT d.scope_id, d.seq
        FROM (
            SELECT array_agg(o.agent_key) AS agents, array_agg(o.scope_id) AS scopes, array_agg(o.seq) AS seqs
            FROM memory.observations o WHERE o.agent_key = v_agent AND o.standing = 'active'
        ) k
        CROSS JOIN LATERAL memory.archival_due(k.agents, k.scopes, k.seqs, p_rules || '{"uses": 9000000000000000000}', v_last) d
    ), used AS MATERIALIZED (  -- by time; after the last of these they aren't counted any more
        SELECT u.scope_id, u.seq, array_agg(u.uses ORDER BY u.n) AS uses, array_agg(u.day ORDER BY u.n) AS last_used_at
        FROM (
            SELECT r.scope_id, r.seq, w.n, sum(r.times)::bigint AS uses, max(r.day)::timestamp AT TIME ZONE 'UTC' AS day
            FROM memory.observation_retrievals r
            JOIN times w ON r.day >= w.counted
            WHERE r.agent_key = v_agent
            GROUP BY r.scope_id, r.seq, w.n
        ) u
        GROUP BY u.scope_id, u.seq
    ), judged AS MATERIALIZED (
        SELECT f.scope_id, f.seq, array_agg(f.feedback ORDER BY f.n) AS feedback
        FROM (
            SELECT f.scope_id, f.seq, w.n, sum(f.total) / sum(f.times) AS feedback
            FROM memory.observation_feedback f
            JOIN times w ON f.day >= w.counted
            WHERE f.agent_key = v_agent
            GROUP BY f.scope_id, f.seq, w.n
        ) f
        GROUP BY f.scope_id, f.seq
    ), known AS MATERIALIZED (
        SELECT o.confidence, o.importance, o.category, o.created_at, coalesce(t.said_again_at, o.observed_at) AS said_at,
               t.verification, coalesce(t.policy, 'durable') AS policy,
               coalesce(t.policy = 'protected' OR o.category = ANY (v_protected), false) AS is_protected,
               o.standing = 'archived' AS is_archived,
               coalesce(array_position(c_stages, t.stage), 1) AS stage,
               memory.is_kept_as_it_is(o.agent_key, o.scope_id, o.seq) AS is_held,
               u.uses, u.last_used_at, j.feedback,
               e.over_at, e.gone_at,
               CASE WHEN g.seq IS NOT NULL
                   THEN greatest(o.created_at, t.said_again_at) + make_interval(days => (p_rules ->> 'days')::integer)
               END AS ages_at
        FROM memory.observations o
        LEFT JOIN memory.observation_states t ON t.agent_key = o.agent_key AND t.scope_id = o.scope_id AND t.seq = o.seq
        LEFT JOIN expiring e ON e.scope_id = o.scope_id AND e.seq = o.seq
        LEFT JOIN aging g ON g.scope_id = o.scope_id AND g.seq = o.seq
        LEFT JOIN used u ON u.scope_id = o.scope_id AND u.seq = o.seq
        LEFT JOIN judged j ON j.scope_id = o.scope_id AND j.seq = o.seq
        WHERE o.agent_key = v_agent AND o.standing IN ('active', 'archived')
    ), told AS (
        SELECT w.n, w.aged, k.is_protected, NOT (v_archival AND w.aged) AND coalesce(k.over_at <= w.at, false) AS is_over,
               NOT (v_archival AND w.aged) AND coalesce(k.gone_at < w.at, false) AS is_gone,  -- as memory.expires
               CASE WHEN k.is_archived OR v_archival AND w.aged OR k.over_at <= w.at OR k.stage = 5 THEN 5
                    ELSE coalesce(w.decided % 8, k.stage) END AS stage, count(*) AS observations
        FROM known k
        CROSS JOIN LATERAL (
            SELECT w.n, w.at, max(  -- 8 * when + which stage: the later one is more, and archived is more than any

                CASE s.becomes WHEN 'archived' THEN 1073741824 ELSE 8 * w.n END + array_position(c_stages, s.becomes)
            ) OVER (ORDER BY w.n) AS decided, coalesce(bool_or(
                k.ages_at <= w.at AND coalesce(k.uses[w.n], 0) <= v_uses AND coalesce(k.gone_at >= w.at, true)
            ) OVER (ORDER BY w.n), false) AS aged
            FROM times w
            CROSS JOIN LATERAL memory.lifecycle(
                k.confidence, k.importance, k.uses[w.n], k.last_used_at[w.n], k.said_at, k.created_at, k.feedback[w.n],
                k.verification, k.category, 'active', w.at
            ) l
            CROSS JOIN LATERAL (
                SELECT CASE WHEN NOT k.is_held THEN memory.next_stage(
                    NULL, l.heat, l.decay, k.verification, k.category, k.policy, v_promote, v_stale, v_archive, v_protected
                ) END AS becomes
                OFFSET 0
            ) s
        ) w
        GROUP BY 1, 2, 3, 4, 5, 6
    )
    SELECT w.n,
           coalesce(sum(d.observations) FILTER (WHERE d.stage = 1 AND NOT d.is_gone), 0)::bigint,
           coalesce(sum(d.observations) FILTER (WHERE d.stage = 2 AND NOT d.is_gone), 0)::bigint,
           coalesce(sum(d.observations) FILTER (WHERE d.stage = 3 AND NOT d.is_gone), 0)::bigint,
           coalesce(sum(d.observations) FILTER (WHERE d.stage = 4 AND NOT d.is_gone), 0)::bigint,
           coalesce(sum(d.observations) FILTER (WHERE d.stage = 5 AND NOT d.is_gone), 0)::bigint,
           coalesce(sum(d.observations) FILTER (WHERE d.is_protected AND NOT d.is_gone), 0)::bigint,
           coalesce(sum(d.observations) FILTER (WHERE d.aged), 0)::bigint,
           coalesce(sum(d.observations) FILTER (WHERE d.is_over), 0)::bigint,
           coalesce(sum(d.observations) FILTER (WHERE d.is_gone), 0)::bigint
    FROM times w
    LEFT JOIN told d ON d.n = w.n
    WHERE v_agent IS NOT NULL
    GROUP BY w.n
    ORDER BY w.n;
END
$$;

COMMENT ON FUNCTION memory.forecast IS 'In which stages an agent''s observations would be at some times, and what would be gone; one row per time.';
