CREATE OR REPLACE VIEW memory.v_formation_funnel WITH (security_invoker = true) AS
SELECT
    a.agent_id,
    e.day,
    e.messages,
    e.eligible,
    e.formed,
    e.discarded,
    e.waiting,
    e.runs,
    e.succeeded,
    e.empty,
    e.failed,
    e.dead,
    e.runs_discarded,
    e.retired,
    e.under_way,
    e.observations,
    e.duplicates,
    e.refused
FROM memory.agents a
CROSS JOIN LATERAL (
    SELECT
        day,
        coalesce(m.messages, 0) AS messages,
        coalesce(m.eligible, 0) AS eligible,
        coalesce(m.formed, 0) AS formed,
        coalesce(m.discarded, 0) AS discarded,
        coalesce(m.waiting, 0) AS waiting,
        coalesce(r.runs, 0) AS runs,
        coalesce(r.succeeded, 0) AS succeeded,
        coalesce(r.empty, 0) AS empty,
        coalesce(r.failed, 0) AS failed,
        coalesce(r.dead, 0) AS dead,
        coalesce(r.discarded, 0) AS runs_discarded,
        coalesce(r.retired, 0) AS retired,
        coalesce(r.under_way, 0) AS under_way,
        coalesce(r.observations, 0) AS observations,
        coalesce(r.duplicates, 0) AS duplicates,
        coalesce(r.refused, 0) AS refused
    FROM (
        SELECT
            (t.created_at AT TIME ZONE 'UTC')::date AS day,
            count(*) AS messages,
            count(*) FILTER (WHERE t.eligible) AS eligible,
            count(*) FILTER (WHERE t.eligible AND t.number <= s.formed_number AND d.run_id IS NULL) AS formed,
            count(*) FILTER (WHERE t.eligible AND d.run_id IS NOT NULL) AS discarded,
            count(*) FILTER (WHERE t.eligible AND t.number > s.formed_number) AS waiting
        FROM memory.messages t
        JOIN memory.conversations s ON s.agent_key = t.agent_key AND s.conversation_id = t.conversation_id
        LEFT JOIN memory.runs d
            ON d.agent_key = t.agent_key AND d.conversation_id = t.conversation_id AND d.state = 'discarded'
            AND t.number > d.from_number AND t.number <= d.to_number
        WHERE t.agent_key = a.agent_key
        GROUP BY 1
    ) m
    FULL JOIN (
        SELECT
            (f.started_at AT TIME ZONE 'UTC')::date AS day,
            count(*) AS runs,
            count(*) FILTER (WHERE f.state = 'succeeded') AS succeeded,
            count(*) FILTER (WHERE f.state = 'empty') AS empty,
            count(*) FILTER (WHERE f.state = 'failed') AS failed,
            count(*) FILTER (WHERE f.state = 'dead') AS dead,
            count(*) FILTER (WHERE f.state = 'discarded') AS discarded,
            count(*) FILTER (WHERE f.state = 'retired') AS retired,
            count(*) FILTER (WHERE f.state IN ('running', 'answered')) AS under_way,
            sum(f.observations) AS observations,
            sum(f.duplicates) AS duplicates,
            sum((SELECT sum(n.value::integer) FROM jsonb_each_text(f.refused) n))::bigint AS refused
        FROM memory.runs f
        WHERE f.agent_key = a.agent_key AND f.kind = 'formation'
        GROUP BY 1
    ) r USING (day)
) e;
COMMENT ON VIEW memory.v_formation_funnel IS
    'One row per agent and day (UTC): messages by what became of them, formations by outcome, and their results.';
COMMENT ON COLUMN memory.v_formation_funnel.agent_id IS 'The host''s id for the agent.';
COMMENT ON COLUMN memory.v_formation_funnel.day IS 'The day, in UTC: messages count on the day they were stored, runs and their results on the day they began.';
COMMENT ON COLUMN memory.v_formation_funnel.messages IS 'Messages that were stored that day.';
COMMENT ON COLUMN memory.v_formation_funnel.eligible IS 'Of these, messages that formation reads: not instructions to the agent, nor what was said while the conversation was excluded.';
COMMENT ON COLUMN memory.v_formation_funnel.formed IS 'Of the eligible messages, those that a formation has read so far.';
COMMENT ON COLUMN memory.v_formation_funnel.discarded IS 'Of the eligible messages, those that were discarded with work that had been given up.';
COMMENT ON COLUMN memory.v_formation_funnel.waiting IS 'Of the eligible messages, those that no formation has read yet.';
COMMENT ON COLUMN memory.v_formation_funnel.runs IS 'Formations that began that day; the sum of the next seven columns.';
COMMENT ON COLUMN memory.v_formation_funnel.succeeded IS 'Runs that stored or confirmed something.';
COMMENT ON COLUMN memory.v_formation_funnel.empty IS 'Runs that found nothing worth keeping.';
COMMENT ON COLUMN memory.v_formation_funnel.failed IS 'Runs that failed; the work is retried by another run if needed.';
COMMENT ON COLUMN memory.v_formation_funnel.dead IS 'Runs that were given up and are retried after a day at least.';
COMMENT ON COLUMN memory.v_formation_funnel.runs_discarded IS 'Runs that a person has discarded.';
COMMENT ON COLUMN memory.v_formation_funnel.retired IS 'Runs whose messages another run has read again since.';
COMMENT ON COLUMN memory.v_formation_funnel.under_way IS 'Runs that have not ended yet.';
COMMENT ON COLUMN memory.v_formation_funnel.observations IS 'Observations that the runs stored.';
COMMENT ON COLUMN memory.v_formation_funnel.duplicates IS 'Extracted statements that were already known; the runs added evidence to the known observations.';
COMMENT ON COLUMN memory.v_formation_funnel.refused IS 'Parts of answers that were corrected or left out; memory.runs.refused has them by reason.';
