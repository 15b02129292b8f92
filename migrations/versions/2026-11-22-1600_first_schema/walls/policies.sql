-- memory: the walls, row-level policies on every table that holds memory. Nobody who hasn't said on whose behalf the
-- transaction works (memory.enter) sees or writes a row. The library's own work reaches the rows of its agent, or of all; a
-- user only reads: what lies in the scopes that memory.visible_scopes names, the conversations that they took part in unless they
-- have left a group of it, nothing of what is withdrawn, of runs, events, holds, prompts and retrievals. Each (SELECT …) is computed once a query, not once a row. The owner of the tables passes, until
-- `memory-sql db roles` forces the policies on it as well: a host with one role runs without walls.

ALTER TABLE memory.agents ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.agents USING (
    (SELECT memory.serves_all()) OR agent_id = (SELECT memory.principal() ->> 'serves')
);
CREATE POLICY users ON memory.agents FOR SELECT USING (agent_id = (SELECT memory.principal() ->> 'agent'));

ALTER TABLE memory.scopes ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.scopes USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.scopes FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);

ALTER TABLE memory.prompts ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.prompts USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);

ALTER TABLE memory.members ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.members USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.members FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);

ALTER TABLE memory.observations ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.observations USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.observations FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
    AND NOT EXISTS (
        SELECT
        FROM memory.observation_states t
        WHERE t.agent_key = observations.agent_key AND t.scope_id = observations.scope_id AND t.seq = observations.seq
          AND t.withdrawn_by IS NOT NULL
    )
);

ALTER TABLE memory.observation_states ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.observation_states USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.observation_states FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);

ALTER TABLE memory.consolidations ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.consolidations USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.consolidations FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);

ALTER TABLE memory.evidence ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.evidence USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.evidence FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
    AND withdrawn_by IS NULL
);

ALTER TABLE memory.lineage ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.lineage USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.lineage FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
    AND source_scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);

ALTER TABLE memory.judged ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.judged USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.judged FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND source_scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
    AND target_scope_id = ANY ((SELECT memory.my_scopes())::bigint[])
);

ALTER TABLE memory.conversations ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.conversations USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.conversations FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND participants && (SELECT memory.my_user_ids())
    AND NOT group_ids && (SELECT memory.my_left_groups())
);

ALTER TABLE memory.messages ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.messages USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.messages FOR SELECT USING (
    withdrawn_by IS NULL AND EXISTS (  -- of the conversations that the user may see, as in memory.visible_conversations: their policy is asked here as well
        SELECT
        FROM memory.conversations s
        WHERE s.agent_key = messages.agent_key AND s.conversation_id = messages.conversation_id AND NOT s.excluded
    )
);

ALTER TABLE memory.runs ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.runs USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);

ALTER TABLE memory.events ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.events USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);

ALTER TABLE memory.holds ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.holds USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);

ALTER TABLE memory.user_aliases ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.user_aliases USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
CREATE POLICY users ON memory.user_aliases FOR SELECT USING (
    agent_key = (SELECT memory.my_agent()) AND into_user_id = ANY ((SELECT memory.my_user_ids())::text[])
    AND withdrawn_by IS NULL
);

ALTER TABLE memory.departures ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.departures USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);

ALTER TABLE memory.retrievals ENABLE ROW LEVEL SECURITY;
CREATE POLICY service ON memory.retrievals USING (
    (SELECT memory.serves_all()) OR agent_key = (SELECT memory.served_agent())
);
