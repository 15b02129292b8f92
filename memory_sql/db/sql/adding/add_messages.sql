-- memory.add_messages(…): stores the messages that aren't there yet, counts them and says whether the conversation is due.
-- One row. In one statement for the caller, in its transaction. A message is known by its id within the session, also
-- after its text has gone. Everything is counted under the conversation's row lock, so that two calls at once can't both miss
-- a threshold. `p_messages` is an array of objects: id, role, user_id, speaker, content, cleaned, weight, eligible,
-- signal, said_at, keyed, refused, search_extra (may be left out). Group scopes are made where missing; who speaks in this
-- call becomes a member unless they ever were: somebody who left doesn't come back by a late message, nor by another id that
-- they go by, nor after being forgotten (memory.left_groups). A message whose text has gone speaks for nobody. What is said
-- while the conversation is excluded is never formed; excluding it refuses what is under way. `p_limits` are settings by name, the agent's
-- own go before them. Wakes the workers when the conversation is due.
-- Messages that are keyed have their ids from an idempotency key, and `p_next` is the id that one more would have. Where
-- such a call was stored with other messages, nothing is stored and `differs` is the first position (from 0) at which it
-- does; a text that has gone can't differ. Who said it, a time that is given, and the groups of the call are compared too; and that
-- its user is one of the conversation's, which who was forgotten isn't any more: not where a text has gone.
-- A message that is refused has only its id; `conversations.refused` keeps the ids of keyed ones, so that the same call
-- with it mended isn't taken for another.
-- With `secrets` among the limits nothing is stored, and `differs` is -1, where the agent has another setting of that name.
-- A time more than a day ahead, by the clock of the database, counts as now; given_at keeps it.
-- `formation` says whether it is due: due, not_due, retrying (failed, and is tried again later), excluded or given_up;
-- `empty_groups` which of the groups have no member after all. `differing` and `forgotten`: see memory.compared_messages.
-- Behind walls it is one round trip all the same: it names its principal itself, the library's work for this agent, until it
-- returns; an error takes the setting back with all else. In a transaction that works for a user, or for another agent, it
-- does nothing of the kind: that is refused.
CREATE OR REPLACE FUNCTION memory.add_messages(
    p_agent text, p_conversation text, p_user text, p_groups text[], p_messages jsonb,
    p_limits jsonb, p_at timestamptz, p_excluded boolean, p_time_zone text, p_next text,
    OUT accepted integer, OUT last_number bigint, OUT unformed_messages integer, OUT unformed_tokens real,
    OUT unformed_since timestamptz, OUT due_at timestamptz, OUT due_reason text, OUT differs integer,
    OUT formation text, OUT empty_groups text[], OUT differing text[], OUT forgotten text[]
)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_agent bigint;
    v_settings jsonb;
    v_language text; v_languages text[];
    v_at timestamptz := coalesce(p_at, now());
    v_users text[]; v_speakers text[];
    v_tokens real; v_count integer; v_signal boolean;
    v_excluded boolean; v_included boolean;
    v_conversation memory.conversations;
    v_before text := memory.serve(p_agent);
    v_latest timestamptz := greatest(v_at, now()) + interval '1 day';
    v_refused text[];
    v_is_whole boolean; v_is_elsewhere boolean;
    v_phrases jsonb;
    v_below integer;
BEGIN
    SELECT a.agent_key, a.settings, a.languages INTO v_agent, v_settings, v_languages FROM memory.agents a WHERE a.agent_id = p_agent;
    IF v_agent IS NULL THEN
        INSERT INTO memory.agents (agent_id, created_at) VALUES (p_agent, v_at) ON CONFLICT DO NOTHING;
        SELECT a.agent_key, a.settings, a.languages INTO STRICT v_agent, v_settings, v_languages FROM memory.agents a WHERE a.agent_id = p_agent;
    END IF;
    IF p_limits ->> 'secrets' <> v_settings ->> 'secrets' THEN
        differs := -1;
        PERFORM memory.leave(v_before);
        RETURN;
    END IF;

    v_settings := memory.settings_over(p_limits, v_settings);
    v_language := coalesce(v_settings ->> 'language', 'english');
    IF v_language <> ALL (v_languages) THEN  -- once, for searches; where somebody holds the agent's row the next call does: none waits
        UPDATE memory.agents a SET languages = a.languages || v_language WHERE a.agent_key = (
            SELECT k.agent_key FROM memory.agents k WHERE k.agent_key = v_agent AND v_language <> ALL (k.languages) FOR NO KEY UPDATE SKIP LOCKED
        );
    END IF;
    SELECT s.* INTO v_conversation
    FROM memory.conversations s WHERE s.agent_key = v_agent AND s.conversation_id = p_conversation FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        INSERT INTO memory.conversations (  -- with what is indexed as it will be, so that what follows leaves the row in its place
            agent_key, conversation_id, user_id, created_at, last_activity_at, participants, text_since, waits_below, due_at, due_reason
        )
        SELECT v_agent, p_conversation, p_user, v_at, v_at, ARRAY[p_user], CASE WHEN EXISTS (
                   SELECT FROM jsonb_to_recordset(p_messages) AS g (refused boolean) WHERE g.refused IS NOT TRUE
               ) THEN v_at END, f.waits_below, f.due_at, f.due_reason
        FROM memory.formation_due(1, 0, false, v_at, v_settings, v_at) f
        ON CONFLICT DO NOTHING;
        SELECT s.* INTO STRICT v_conversation
        FROM memory.conversations s WHERE s.agent_key = v_agent AND s.conversation_id = p_conversation FOR NO KEY UPDATE;
    END IF;

    WITH keyed AS (
        SELECT g.n - 1 AS position, k.message_id IS NOT NULL AS known,
               k.message_id IS NOT NULL AND (k.content IS NULL OR k.withdrawn_by IS NOT NULL) AS gone,
               k.role <> g.role OR k.content <> g.content OR coalesce(k.given_at, k.said_at) <> g.said_at
                   OR k.message_id IS NOT NULL AND k.user_id IS DISTINCT FROM g.user_id AS other,
               NOT (k.group_ids <@ p_groups AND k.group_ids @> p_groups) AS other_groups,
               g.id = ANY (v_conversation.refused) AS was_refused
        FROM ROWS FROM (jsonb_to_recordset(p_messages) AS (
            id text, role text, user_id text, content text, said_at timestamptz, keyed boolean
        )) WITH ORDINALITY AS g (id, role, user_id, content, said_at, keyed, n)
        LEFT JOIN memory.messages k ON k.agent_key = v_agent AND k.conversation_id = p_conversation AND k.message_id = g.id
        WHERE p_next IS NOT NULL AND g.keyed
    )
    SELECT min(d.position), EXISTS (SELECT FROM keyed WHERE known) AND NOT EXISTS (SELECT FROM keyed WHERE gone),
           EXISTS (SELECT FROM keyed WHERE other_groups)
    INTO differs, v_is_whole, v_is_elsewhere
    FROM (
        SELECT position FROM keyed WHERE other OR (NOT known AND NOT was_refused AND EXISTS (SELECT FROM keyed WHERE known))
        UNION ALL
        SELECT jsonb_array_length(p_messages)
        WHERE EXISTS (SELECT FROM keyed WHERE known) AND (
            p_next = ANY (v_conversation.refused) OR EXISTS (
                SELECT FROM memory.messages k
                WHERE k.agent_key = v_agent AND k.conversation_id = p_conversation AND k.message_id = p_next
            )
        )
    ) d;
    IF v_is_elsewhere OR v_is_whole AND p_user <> ALL (v_conversation.participants) THEN
        differs := coalesce(differs, 0);
    END IF;
    IF differs IS NOT NULL THEN
        PERFORM memory.leave(v_before);
        RETURN;
    END IF;

    v_phrases := nullif(v_settings -> 'formation_phrases', '[]');
    v_excluded := coalesce(p_excluded, v_conversation.excluded);
    v_included := v_conversation.excluded AND NOT v_excluded;
    WITH given AS (
        SELECT DISTINCT ON (m.id) m.*
        FROM ROWS FROM (jsonb_to_recordset(p_messages) AS (
            id text, role text, user_id text, speaker text, content text, cleaned text[], weight real,
            eligible boolean, signal text, said_at timestamptz, search_extra text, keyed boolean, refused boolean
        )) WITH ORDINALITY AS m (
            id, role, user_id, speaker, content, cleaned, weight, eligible, signal, said_at, search_extra, keyed, refused, n
        )
        WHERE m.refused IS NOT TRUE
        ORDER BY m.id, m.n
    ), new AS (
        SELECT g.*, row_number() OVER (ORDER BY g.n) AS i
        FROM given g
        WHERE NOT EXISTS (
            SELECT FROM memory.messages k
            WHERE k.agent_key = v_agent AND k.conversation_id = p_conversation AND k.message_id = g.id
        )
    ), stored AS (
        INSERT INTO memory.messages (
            agent_key, conversation_id, number, message_id, role, user_id, speaker, content, cleaned, weight, eligible, signal,
            said_at, given_at, created_at, owner, group_ids, language, search_extra
        )
        SELECT v_agent, p_conversation, v_conversation.last_number + i, id, role, user_id, speaker, content, cleaned, weight,
               eligible AND NOT v_excluded, CASE WHEN NOT v_excluded THEN coalesce(
                   signal,
                   CASE WHEN eligible AND role = 'user' AND memory.says_any(content, v_phrases) THEN 'own phrase' END
               ) END,
               CASE WHEN said_at <= v_latest THEN said_at ELSE v_at END, CASE WHEN said_at > v_latest THEN said_at END, v_at,
               'u:' || v_conversation.user_id, CASE WHEN keyed THEN p_groups END, v_language,
               coalesce(search_extra, '')
        FROM new
        RETURNING user_id, weight, eligible, signal
    )
    SELECT count(*), count(*) FILTER (WHERE eligible), coalesce(sum(weight) FILTER (WHERE eligible), 0),
           bool_or(signal IS NOT NULL),
           array_agg(DISTINCT user_id) FILTER (WHERE user_id IS NOT NULL)
    INTO accepted, v_count, v_tokens, v_signal, v_users
    FROM stored;
    IF accepted < jsonb_array_length(p_messages) THEN
        SELECT array_agg(DISTINCT c.message_id) FILTER (WHERE c.differs), array_agg(DISTINCT c.message_id) FILTER (WHERE c.is_forgotten)
        INTO differing, forgotten
        FROM memory.compared_messages(v_agent, p_conversation, p_messages) c;
    END IF;

    v_refused := ARRAY(
        SELECT r.id
        FROM (
            SELECT unnest(v_conversation.refused) AS id
            UNION
            SELECT g.id FROM jsonb_to_recordset(p_messages) AS g (id text, keyed boolean, refused boolean)
            WHERE g.keyed AND g.refused
        ) r
        WHERE NOT EXISTS (
            SELECT FROM memory.messages k
            WHERE k.agent_key = v_agent AND k.conversation_id = p_conversation AND k.message_id = r.id
        )
        ORDER BY 1
    );

    v_users := v_conversation.participants || v_users
        || CASE WHEN accepted > 0 OR v_conversation.last_number = 0 THEN p_user END;
    v_users := ARRAY(SELECT DISTINCT u FROM unnest(v_users) u WHERE u IS NOT NULL ORDER BY u);
    last_number := v_conversation.last_number + accepted;
    unformed_messages := v_conversation.unformed_messages + v_count;
    unformed_tokens := v_conversation.unformed_tokens + v_tokens;
    unformed_since := least(v_conversation.unformed_since, CASE WHEN v_count > 0 THEN v_at END);
    IF v_included THEN  -- what was said before it was excluded is due as ever
        v_signal := v_signal OR EXISTS (
            SELECT FROM memory.messages m
            WHERE m.agent_key = v_agent AND m.conversation_id = p_conversation AND m.number > v_conversation.formed_number
              AND m.eligible AND m.signal IS NOT NULL
        );
    END IF;
    -- A conversation without a message is due only by what was assumed as its row was made.
    IF v_conversation.due_reason = 'retry' OR (accepted = 0 AND NOT v_included AND v_conversation.last_number > 0) THEN
        due_at := v_conversation.due_at;
        due_reason := v_conversation.due_reason;
    ELSE
        SELECT f.due_at, f.due_reason, f.waits_below
        INTO due_at, due_reason, v_below
        FROM memory.formation_due(
            unformed_messages, unformed_tokens, v_signal OR v_conversation.due_reason = 'signal', unformed_since,
            v_settings, v_at
        ) f;
        IF due_reason = v_conversation.due_reason AND due_reason NOT IN ('cold', 'rest') THEN
            due_at := v_conversation.due_at;
        END IF;
    END IF;
    IF v_excluded OR v_conversation.dead_run_id IS NOT NULL THEN
        due_at := NULL;
        due_reason := NULL;
    END IF;
    formation := CASE
        WHEN v_excluded THEN 'excluded' WHEN v_conversation.dead_run_id IS NOT NULL THEN 'given_up'
        WHEN due_at <= v_at THEN 'due' WHEN due_reason = 'retry' THEN 'retrying' ELSE 'not_due'
    END;
    IF due_at <= v_at AND v_conversation.due_at IS DISTINCT FROM due_at THEN
        PERFORM pg_notify('memory_due', '');
    END IF;

    UPDATE memory.conversations s
    SET last_number = add_messages.last_number,
        unformed_messages = add_messages.unformed_messages,
        unformed_tokens = add_messages.unformed_tokens,
        unformed_since = add_messages.unformed_since,
        due_at = add_messages.due_at,
        due_reason = add_messages.due_reason,
        waits_below = coalesce(v_below, s.waits_below),
        excluded = v_excluded,
        epoch = s.epoch + (v_excluded AND NOT v_conversation.excluded)::integer,
        time_zone = coalesce(p_time_zone, s.time_zone),
        participants = CASE WHEN s.participants = v_users THEN s.participants ELSE v_users END,  -- the same, byte for byte
        refused = v_refused,
        group_ids = ARRAY(SELECT DISTINCT g FROM unnest(s.group_ids || p_groups) g ORDER BY g),
        last_activity_at = CASE WHEN accepted > 0 THEN v_at ELSE s.last_activity_at END,
        text_since = least(s.text_since, CASE WHEN accepted > 0 THEN v_at END)
    WHERE s.agent_key = v_agent AND s.conversation_id = p_conversation;

    IF v_excluded AND NOT v_conversation.excluded THEN  -- also an answer that was stored and waits to be applied
        UPDATE memory.runs r
        SET state = 'failed', answer = NULL, seen = '{}', error_code = 'abandoned', error = 'the session was excluded', finished_at = v_at
        WHERE r.agent_key = v_agent AND r.conversation_id = p_conversation AND r.state IN ('running', 'answered');
    END IF;

    IF cardinality(p_groups) > 0 THEN
        INSERT INTO memory.scopes (agent_key, kind, owner, display_name, language, created_at)
        SELECT v_agent, 'group', 'g:' || g, g, v_language, v_at
        FROM (SELECT DISTINCT unnest(p_groups) AS g ORDER BY 1) groups
        ON CONFLICT (agent_key, owner, name) DO NOTHING;

        v_speakers := ARRAY(
            SELECT DISTINCT m.user_id
            FROM jsonb_to_recordset(p_messages) AS g (id text)
            JOIN memory.messages m ON m.agent_key = v_agent AND m.conversation_id = p_conversation AND m.message_id = g.id
            WHERE m.user_id IS NOT NULL AND m.content IS NOT NULL
            ORDER BY m.user_id
        );
        INSERT INTO memory.members (agent_key, scope_id, user_id, joined_at)
        SELECT v_agent, s.scope_id, u, v_at
        FROM memory.scopes s
        CROSS JOIN unnest(v_speakers) u
        WHERE s.agent_key = v_agent AND s.owner = ANY (ARRAY(SELECT 'g:' || g FROM unnest(p_groups) g)) AND s.name = ''
          AND NOT EXISTS (
              SELECT FROM memory.members m WHERE m.agent_key = v_agent AND m.scope_id = s.scope_id AND m.user_id = u
          )
          AND NOT memory.has_left(v_agent, s.scope_id, u)
        ON CONFLICT DO NOTHING;
        empty_groups := ARRAY(
            SELECT DISTINCT g FROM unnest(p_groups) g WHERE memory.is_empty_group(v_agent, 'g:' || g) ORDER BY g
        );
    END IF;
    PERFORM memory.leave(v_before);
END
$$;

COMMENT ON FUNCTION memory.add_messages(
    text, text, text, text[], jsonb, jsonb, timestamptz, boolean, text, text
) IS 'Stores the messages that are new, once, and says whether the conversation is due; one row.';
