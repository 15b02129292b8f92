ALTER TABLE memory.agents ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.agents USING (
    (SELECT memory.serves_all()) OR agent_id = (SELECT memory.principal() ->> 'serves')
);
CREATE POLICY users ON memory.agents FOR SELECT USING (agent_id = (SELECT memory.principal() ->> 'agent'));
DO $$
DECLARE
    v_table text;
BEGIN
    FOREACH v_table IN ARRAY ARRAY[
        'scopes', 'prompts', 'members', 'observations', 'observation_states', 'consolidations', 'evidence', 'lineage',
        'judged', 'conversations', 'messages', 'runs', 'events', 'holds', 'user_aliases', 'departures', 'forgotten_ids', 'retrievals', 'imported',
        'imported_messages', 'forgotten_refs', 'observation_vectors', 'observation_retrievals', 'observation_feedback',
        'rechecked', 'links', 'episodes', 'observation_episodes'
    ] LOOP
        EXECUTE format('ALTER TABLE memory.%I ENABLE ROW LEVEL SECURITY', v_table);
        EXECUTE format(
            'CREATE POLICY service ON memory.%I USING (
                (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
            )', v_table
        );
    END LOOP;
END
$$;
ALTER TABLE memory.imports ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.imports USING ((SELECT memory.serves_all()));
ALTER TABLE memory.import_rejects ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.import_rejects USING ((SELECT memory.serves_all()));
ALTER TABLE memory.api_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.api_keys USING ((SELECT memory.serves_all()));
ALTER TABLE memory.shards ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.shards USING ((SELECT memory.serves_all()));
ALTER TABLE memory.agent_shards ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.agent_shards USING ((SELECT memory.serves_all()));
ALTER TABLE memory.moved_agents ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.moved_agents USING (
    (SELECT memory.serves_all()) OR agent_id = (SELECT memory.principal() ->> 'serves')
);
ALTER TABLE memory.dialects ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.dialects USING ((SELECT memory.serves_all()));
ALTER TABLE memory.prices ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.prices USING ((SELECT memory.serves_all()));
CREATE POLICY users ON memory.prices FOR SELECT USING ((SELECT memory.served_agent()) IS NOT NULL);  -- for work that serves one agent
CREATE POLICY users ON memory.scopes FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);
CREATE POLICY users ON memory.members FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);
CREATE POLICY users ON memory.observations FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
    AND NOT EXISTS (
        SELECT FROM memory.observation_states t
        WHERE t.agent_key = observations.agent_key AND t.scope_id = observations.scope_id AND t.seq = observations.seq
          AND t.withdrawn_by IS NOT NULL
    )
);
CREATE POLICY users ON memory.observation_states FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);
CREATE POLICY users ON memory.consolidations FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);
CREATE POLICY users ON memory.evidence FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
    AND withdrawn_by IS NULL
);
CREATE POLICY users ON memory.lineage FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
    AND source_scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);
CREATE POLICY users ON memory.judged FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND source_scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
    AND target_scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);
CREATE POLICY users ON memory.conversations FOR SELECT USING (
    memory.user_tokens(agent_key, participants) && (SELECT memory.user_tokens(memory.my_agent(), memory.my_user_ids()))
    AND agent_key IS NOT DISTINCT FROM (SELECT memory.my_agent()) AND participants && (SELECT memory.my_user_ids())
    AND (group_ids = '{}' OR group_ids <@ (SELECT memory.my_groups()) OR NOT group_ids && (SELECT memory.my_left_groups()))
);
CREATE POLICY users ON memory.messages FOR SELECT USING (
    withdrawn_by IS NULL AND EXISTS (  -- the policy of conversations applies here too, as in memory.visible_conversations
        SELECT FROM memory.conversations s
        WHERE s.agent_key = messages.agent_key AND s.conversation_id = messages.conversation_id AND NOT s.excluded
    )
);
CREATE POLICY users ON memory.episodes FOR SELECT USING (
    EXISTS (  -- the policy of conversations applies here too
        SELECT FROM memory.conversations s
        WHERE s.agent_key = episodes.agent_key AND s.conversation_id = episodes.conversation_id AND NOT s.excluded
    )
);
CREATE POLICY users ON memory.observation_episodes FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
    AND EXISTS (SELECT FROM memory.episodes e WHERE e.agent_key = observation_episodes.agent_key AND e.episode_id = observation_episodes.episode_id)
    AND EXISTS (
        SELECT FROM memory.observations o
        WHERE o.agent_key = observation_episodes.agent_key AND o.scope_id = observation_episodes.scope_id AND o.seq = observation_episodes.seq
    )
);
CREATE POLICY users ON memory.user_aliases FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND into_user_id = ANY ((SELECT memory.my_user_ids())::text[])
    AND withdrawn_by IS NULL
);
