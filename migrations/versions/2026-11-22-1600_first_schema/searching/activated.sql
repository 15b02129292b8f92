CREATE OR REPLACE FUNCTION memory.activated(p_agent bigint, p_scopes bigint[], p_seqs integer[])
RETURNS TABLE (scope_id bigint, seq integer, activation double precision, seed integer, hops integer, path jsonb)
LANGUAGE plpgsql STABLE ROWS 50 AS $$
#variable_conflict use_column
DECLARE
    c_links CONSTANT integer := 200;
    c_each CONSTANT integer := 20;
    c_hops CONSTANT integer := 3;
    c_decay CONSTANT double precision := 0.7;
    c_floor CONSTANT double precision := 0.2;
    c_rounds CONSTANT integer := 8;
    c_damping CONSTANT double precision := 0.85;
    c_beta CONSTANT double precision := 0.15;
    c_ahead CONSTANT integer := 7;
    v_seeds integer := cardinality(p_seqs);
    v_count integer := v_seeds;
    v_left integer := c_links;
    v_scopes bigint[] := p_scopes;  -- here and below: of each that was reached, after the seeds
    v_seqs integer[] := p_seqs;
    v_scores double precision[] := array_fill(0::double precision, ARRAY[v_seeds]);
    v_of integer[] := ARRAY(SELECT n FROM generate_series(1, v_seeds) n);
    v_hops integer[] := array_fill(0, ARRAY[v_seeds]);
    v_best double precision[] := array_fill(0::double precision, ARRAY[v_seeds]);
    v_paths jsonb[] := array_fill('[]'::jsonb, ARRAY[v_seeds]);
    v_keys text[] := ARRAY(SELECT u.scope || '-' || u.seq FROM unnest(p_scopes, p_seqs) WITH ORDINALITY u(scope, seq, n) ORDER BY u.n);
    v_done boolean[] := array_fill(false, ARRAY[v_seeds]);
    v_frontier integer[] := v_of;
    v_next integer[];
    v_from integer[] := '{}'; v_to integer[] := '{}'; v_flows double precision[] := '{}';
    v_total double precision[];
    v_passed double precision[];
    v_hop integer;
    v_node integer;
    v_score double precision;
    e record;
BEGIN
    FOR v_hop IN 1 .. c_hops LOOP
        EXIT WHEN cardinality(v_frontier) = 0 OR v_left <= 0;
        v_next := '{}';
        FOR e IN
            SELECT f.node, l.seq, l.one_way, l.kind, l.label, l.flow, l.confidence, o.standing = 'active' AS in_use, v_scopes[f.node] AS scope
            FROM unnest(v_frontier) f(node)
            CROSS JOIN LATERAL (
                (SELECT l.to_seq AS seq, l.kind = 'cause' AS one_way, l.kind, l.label, coalesce(l.confidence, 1) AS confidence,
                        l.weight * coalesce(l.confidence, 1) AS flow
                FROM memory.links l
                WHERE l.agent_key = p_agent AND l.scope_id = v_scopes[f.node] AND l.seq = v_seqs[f.node]
                ORDER BY l.to_seq DESC LIMIT c_each)
                UNION ALL
                (SELECT l.seq, l.kind = 'cause', l.kind, l.label, coalesce(l.confidence, 1), CASE WHEN l.kind <> 'cause' THEN l.weight * coalesce(l.confidence, 1) END
                FROM memory.links l
                WHERE l.agent_key = p_agent AND l.scope_id = v_scopes[f.node] AND l.to_seq = v_seqs[f.node]
                ORDER BY l.seq DESC LIMIT c_each)
            ) l
            CROSS JOIN LATERAL (
                SELECT o.standing FROM memory.observations o
                WHERE o.agent_key = p_agent AND o.scope_id = v_scopes[f.node] AND o.seq = l.seq LIMIT 1
            ) o
            LIMIT v_left
        LOOP
            v_left := v_left - 1;
            v_done[e.node] := true;
            CONTINUE WHEN e.flow IS NULL OR e.confidence < c_floor OR NOT e.in_use;
            v_node := array_position(v_keys, e.scope || '-' || e.seq);
            v_score := e.flow * c_decay ^ v_hop;
            IF v_node IS NULL THEN
                v_count := v_count + 1;
                v_node := v_count;
                v_keys[v_node] := e.scope || '-' || e.seq;
                v_scopes[v_node] := e.scope; v_seqs[v_node] := e.seq; v_scores[v_node] := 0; v_done[v_node] := false;
                v_hops[v_node] := v_hop; v_best[v_node] := 0; v_of[v_node] := v_of[e.node];
                v_next := v_next || v_node;
            END IF;
            CONTINUE WHEN v_node <= v_seeds;
            v_scores[v_node] := v_scores[v_node] + v_score;
            IF v_hops[v_node] = v_hop AND v_score > v_best[v_node] THEN
                v_best[v_node] := v_score;
                v_of[v_node] := v_of[e.node];
                v_paths[v_node] := v_paths[e.node] || jsonb_build_object(
                    'from_id', 'o' || v_keys[e.node], 'to_id', 'o' || e.scope || '-' || e.seq, 'kind', e.kind, 'label', e.label, 'confidence', e.confidence
                );
            END IF;
            IF e.node > v_seeds AND NOT (v_done[v_node] AND NOT e.one_way) THEN  -- from both sides it would be there twice
                v_from := v_from || e.node; v_to := v_to || v_node; v_flows := v_flows || e.flow;
                IF NOT e.one_way THEN
                    v_from := v_from || v_node; v_to := v_to || e.node; v_flows := v_flows || e.flow;
                END IF;
            END IF;
        END LOOP;
        v_frontier := v_next;
    END LOOP;
    IF v_count > v_seeds + 1 THEN
        v_total := array_fill(0::double precision, ARRAY[v_count]);
        FOR i IN 1 .. cardinality(v_from) LOOP
            v_total[v_from[i]] := v_total[v_from[i]] + v_flows[i];
        END LOOP;
        FOR v_round IN 1 .. c_rounds LOOP
            v_passed := v_scores;
            FOR i IN 1 .. v_count LOOP
                IF v_total[i] > 0 THEN
                    v_passed[i] := (1 - c_damping) * v_scores[i];
                END IF;
            END LOOP;
            FOR i IN 1 .. cardinality(v_from) LOOP
                v_passed[v_to[i]] := v_passed[v_to[i]] + c_damping * v_scores[v_from[i]] * v_flows[i] / v_total[v_from[i]];
            END LOOP;
            v_scores := v_passed;
        END LOOP;
    END IF;
    RETURN QUERY
    WITH reached AS (
        SELECT v_scopes[n] AS scope_id, v_seqs[n] AS seq, v_scores[n] AS score, v_of[n] AS seed, v_hops[n] AS hops, v_paths[n] AS path
        FROM generate_series(v_seeds + 1, v_count) n
    ), ahead AS (
        SELECT coalesce(array_agg(a.score), '{}') AS scores FROM (SELECT r.score FROM reached r ORDER BY r.score DESC LIMIT c_ahead) a
    )
    SELECT r.scope_id, r.seq, x.score, r.seed, r.hops, r.path
    FROM reached r
    CROSS JOIN ahead a
    CROSS JOIN LATERAL (
        SELECT greatest(r.score - c_beta * coalesce((SELECT sum(s - r.score) FROM unnest(a.scores) s WHERE s > r.score), 0), 0) AS score
    ) x
    WHERE x.score > 0;
END
$$;
COMMENT ON FUNCTION memory.activated IS 'What is reached from observations along their links; one row per observation.';
