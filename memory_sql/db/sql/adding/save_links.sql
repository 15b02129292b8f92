-- memory.save_links(agent_key, drafts, saved, at): links what was stored of these drafts with what their scopes hold. A draft has
-- what memory.store_drafts takes, and `links`: the names that its text holds, and the words in it that tell a cause; null: it gets
-- no links. `saved`: rows of memory.save_observations. The caller has locked the scopes.
-- entity: to the `c_siblings` newest older observations that hold one of the names, or are about the same user (other than whose the
-- scope is), by the name that fewest hold; of what was known already as well, if it was said again. time: from the one
-- before it of the same conversation, and cause: from that too, if its text tells a cause. What is superseded, archived or set aside is
-- linked with nothing. Of each scope the newest `c_newest` numbers are looked at. A link that is there gains .05, up to 1.
CREATE OR REPLACE FUNCTION memory.save_links(p_agent bigint, p_drafts jsonb, p_saved jsonb, p_at timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    c_newest CONSTANT integer := 2000;
    c_siblings CONSTANT integer := 10;
    c_label CONSTANT integer := 100;  -- in some languages lower case is longer
BEGIN
    WITH saved AS MATERIALIZED (
        SELECT DISTINCT ON (f.scope_id, f.seq) f.scope_id, f.seq, f.is_new, d.conversation_id, d.links ->> 'cause' AS cause,
               ARRAY(SELECT memory.plain_words(n) FROM jsonb_array_elements_text(d.links -> 'names') n) AS names,
               ARRAY(SELECT u FROM unnest(d.subjects) u WHERE d.owner <> 'u:' || u) AS subjects
        FROM jsonb_to_recordset(p_saved) AS f (place integer, scope_id bigint, seq integer, is_new boolean)
        JOIN jsonb_to_recordset(p_drafts) AS d (
            place integer, owner text, conversation_id text, subjects text[], evidence jsonb, links jsonb
        ) ON d.place = f.place AND jsonb_typeof(d.links) = 'object'
        CROSS JOIN LATERAL (
            SELECT o.standing FROM memory.observations o
            WHERE o.agent_key = p_agent AND o.scope_id = f.scope_id AND o.seq = f.seq LIMIT 1
        ) o
        WHERE o.standing = 'active' AND (f.is_new OR NOT EXISTS (  -- a message that is read again says nothing again
            SELECT
            FROM jsonb_to_recordset(d.evidence) AS x (conversation_id text, number bigint)
            JOIN memory.evidence e ON e.agent_key = p_agent AND e.conversation_id = x.conversation_id AND e.number = x.number
            WHERE e.scope_id = f.scope_id AND e.seq = f.seq AND e.created_at < p_at
        ))
        ORDER BY f.scope_id, f.seq, f.is_new DESC
    ), recent AS MATERIALIZED (
        SELECT s.scope_id, o.seq, o.conversation_id, o.subjects, memory.plain_words(o.content) AS words
        FROM (SELECT s.scope_id, max(s.seq) AS last FROM saved s GROUP BY s.scope_id) s
        CROSS JOIN LATERAL (
            SELECT o.* FROM memory.observations o
            WHERE o.agent_key = p_agent AND o.scope_id = s.scope_id AND o.standing = 'active'
              AND o.seq > s.last - c_newest AND o.seq < s.last
            OFFSET 0
        ) o
    ), shared AS MATERIALIZED (
        SELECT s.scope_id, s.seq, r.seq AS to_seq, left(btrim(n.name), c_label) AS label, n.place
        FROM saved s
        CROSS JOIN LATERAL (
            SELECT n.name, n.place FROM unnest(s.names) WITH ORDINALITY n(name, place) WHERE n.name <> '  '
            UNION ALL
            SELECT '', 1000 WHERE s.subjects <> '{}'
        ) n
        JOIN recent r ON r.scope_id = s.scope_id AND r.seq < s.seq
            AND CASE n.name WHEN '' THEN r.subjects && s.subjects ELSE strpos(r.words, n.name) > 0 END
    ), sibling AS (
        SELECT x.*, row_number() OVER (PARTITION BY x.scope_id, x.seq ORDER BY x.to_seq DESC) AS nearest
        FROM (
            SELECT DISTINCT ON (h.scope_id, h.seq, h.to_seq) h.*
            FROM (SELECT h.*, count(*) OVER (PARTITION BY h.scope_id, h.seq, h.label) AS holders FROM shared h) h
            ORDER BY h.scope_id, h.seq, h.to_seq, h.label = '', h.holders, h.place
        ) x
    ), before AS (
        SELECT s.scope_id, r.seq, s.seq AS to_seq, s.cause
        FROM saved s
        CROSS JOIN LATERAL (
            SELECT r.seq FROM recent r
            WHERE r.scope_id = s.scope_id AND r.conversation_id = s.conversation_id AND r.seq < s.seq
            ORDER BY r.seq DESC LIMIT 1
        ) r
        WHERE s.is_new
    )
    INSERT INTO memory.links AS l (agent_key, scope_id, seq, to_seq, kind, label, created_at)
    SELECT p_agent, f.*, p_at
    FROM (
        SELECT n.scope_id, n.seq, n.to_seq, 'entity', n.label FROM sibling n WHERE n.nearest <= c_siblings
        UNION ALL
        SELECT b.scope_id, b.seq, b.to_seq, 'time', '' FROM before b
        UNION ALL
        SELECT b.scope_id, b.seq, b.to_seq, 'cause', b.cause FROM before b WHERE b.cause IS NOT NULL
    ) f (scope_id, seq, to_seq, kind, label)
    ORDER BY f.scope_id, f.seq, f.to_seq, f.kind
    ON CONFLICT ON CONSTRAINT links_pkey DO UPDATE
    SET confidence = memory.reinforced(l.confidence, 0.05), reinforced_at = p_at, charged_until = NULL;
END
$$;

COMMENT ON FUNCTION memory.save_links IS 'Links what was stored of drafts with what their scopes hold.';

-- memory.plain_words(text): its words in lower case, with one space before, between and behind them. A name stands in a text if
-- its words stand in the text's.
CREATE OR REPLACE FUNCTION memory.plain_words(p_text text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ' ' || btrim(regexp_replace(lower(p_text), '[^[:alnum:]]+', ' ', 'g')) || ' '
$$;

COMMENT ON FUNCTION memory.plain_words IS 'The words of a text in lower case, between single spaces; one value.';
