-- memory.swept: what every sweep over observations needs: the next ones it looks at, and locks on those that it changes.
--
-- No statement of a sweep may read more than its batch, whatever the planner knows of the tables: without statistics, or by a plan
-- made while they were small, it would read all of them, and again for each batch. So these functions, and those that call them, allow
-- nothing but indexes (SET enable_seqscan …), and ask for what belongs to a key by that key.
--
-- memory.next_in_use(agent, after, most): the next active observations after that key (agent_key, scope_id, seq; zeros: from
-- the first), at most so many, in the order of their keys; of one agent, or of all where it is null. One row each.
CREATE OR REPLACE FUNCTION memory.next_in_use(p_agent text, p_after bigint[], p_most integer)
RETURNS TABLE (agent_key bigint, scope_id bigint, seq integer)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
#variable_conflict use_column
DECLARE
    v_agent bigint; v_after bigint[] := p_after;
BEGIN
    IF p_agent IS NOT NULL THEN
        SELECT a.agent_key INTO v_agent FROM memory.agents a WHERE a.agent_id = p_agent;
        IF v_agent IS NULL THEN
            RETURN;
        END IF;
        v_after := greatest(p_after, ARRAY[v_agent, 0, 0]);
    END IF;
    RETURN QUERY
    SELECT o.agent_key, o.scope_id, o.seq
    FROM memory.observations o
    WHERE (o.agent_key, o.scope_id, o.seq) > (v_after[1], v_after[2], v_after[3])
      AND o.agent_key <= coalesce(v_agent, 9223372036854775807) AND o.standing = 'active'
    ORDER BY o.agent_key, o.scope_id, o.seq
    LIMIT p_most;
END
$$;

COMMENT ON FUNCTION memory.next_in_use IS 'The next active observations after one, in the order of their keys; one row each.';

-- memory.next_found(agent, after, most): the same of what searches find: what is archived, too. A function of its own: for one standing
-- the index has them in the order of keys, for two it hasn't.
CREATE OR REPLACE FUNCTION memory.next_found(p_agent text, p_after bigint[], p_most integer)
RETURNS TABLE (agent_key bigint, scope_id bigint, seq integer)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
#variable_conflict use_column
DECLARE
    v_agent bigint; v_after bigint[] := p_after;
BEGIN
    IF p_agent IS NOT NULL THEN
        SELECT a.agent_key INTO v_agent FROM memory.agents a WHERE a.agent_id = p_agent;
        IF v_agent IS NULL THEN
            RETURN;
        END IF;
        v_after := greatest(p_after, ARRAY[v_agent, 0, 0]);
    END IF;
    RETURN QUERY
    SELECT o.agent_key, o.scope_id, o.seq
    FROM memory.observations o
    WHERE (o.agent_key, o.scope_id, o.seq) > (v_after[1], v_after[2], v_after[3])
      AND o.agent_key <= coalesce(v_agent, 9223372036854775807) AND memory.is_found(o.standing)
    ORDER BY o.agent_key, o.scope_id, o.seq
    LIMIT p_most;
END
$$;

COMMENT ON FUNCTION memory.next_found IS 'The next observations that searches find after one, in the order of their keys; one row each.';

-- memory.lock_swept(agents, scopes, seqs): locks these observations with their scopes, and their agents against new holds.
-- One row for each that is locked now: it waits for nobody, and passes over what somebody else works on, and agents that are
-- moving to another shard. What is true of them has to be asked again by the next statement.
CREATE OR REPLACE FUNCTION memory.lock_swept(p_agents bigint[], p_scopes bigint[], p_seqs integer[])
RETURNS TABLE (agent_key bigint, scope_id bigint, seq integer)
LANGUAGE sql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    SELECT o.agent_key, o.scope_id, o.seq
    FROM unnest(p_agents, p_scopes, p_seqs) k(agent_key, scope_id, seq)
    JOIN memory.agents a ON a.agent_key = k.agent_key
    JOIN memory.scopes s ON s.agent_key = k.agent_key AND s.scope_id = k.scope_id
    JOIN memory.observations o ON o.agent_key = k.agent_key AND o.scope_id = k.scope_id AND o.seq = k.seq
    WHERE NOT EXISTS (SELECT FROM memory.moved_agents v WHERE v.moved_key = k.agent_key)
    ORDER BY k.agent_key, k.scope_id, k.seq
    FOR SHARE OF a SKIP LOCKED FOR NO KEY UPDATE OF s SKIP LOCKED FOR KEY SHARE OF o SKIP LOCKED
$$;

COMMENT ON FUNCTION memory.lock_swept IS 'Locks the observations that a sweep changes; one row for each that nobody else had locked.';

-- memory.is_kept_as_it_is(agent_key, scope_id, seq): whether an open hold keeps this observation; no sweep touches it. One value.
CREATE OR REPLACE FUNCTION memory.is_kept_as_it_is(p_agent bigint, p_scope bigint, p_seq integer) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM memory.holds h WHERE h.agent_key = p_agent AND h.released_at IS NULL)
        AND memory.is_held_observation(p_agent, p_scope, p_seq)
$$;

COMMENT ON FUNCTION memory.is_kept_as_it_is IS 'Whether no sweep may touch an observation, since a hold keeps it; one value.';

-- memory.moved(agents, scopes, seqs, was, becomes): the first 20 of these changes, as a dry run shows them. One value.
CREATE OR REPLACE FUNCTION memory.moved(p_agents bigint[], p_scopes bigint[], p_seqs integer[], p_was text[], p_becomes text[])
RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_object(
        'agent_id', a.agent_id, 'scope_id', k.scope_id, 'seq', k.seq, 'was', k.was, 'becomes', k.becomes
    ) ORDER BY k.place), '[]')
    FROM unnest(p_agents[:20], p_scopes[:20], p_seqs[:20], p_was[:20], p_becomes[:20])
        WITH ORDINALITY k(agent_key, scope_id, seq, was, becomes, place)
    JOIN memory.agents a ON a.agent_key = k.agent_key
$$;

COMMENT ON FUNCTION memory.moved IS 'The first changes of a sweep, as a dry run shows them; one value.';
