-- Written by `make schema`: the way back.

DROP VIEW memory.v_propagation_flow, memory.v_retrieval, memory.v_model_cost, memory.v_formation_funnel,
    memory.v_pending, memory.v_contradictions, memory.v_scope_timeline, memory.v_observations;
DROP POLICY service ON memory.retrievals;
DROP POLICY service ON memory.departures;
DROP POLICY users ON memory.user_aliases;
DROP POLICY service ON memory.user_aliases;
DROP POLICY service ON memory.holds;
DROP POLICY service ON memory.events;
DROP POLICY service ON memory.runs;
DROP POLICY users ON memory.messages;
DROP POLICY service ON memory.messages;
DROP POLICY users ON memory.conversations;
DROP POLICY service ON memory.conversations;
DROP POLICY users ON memory.judged;
DROP POLICY service ON memory.judged;
DROP POLICY users ON memory.lineage;
DROP POLICY service ON memory.lineage;
DROP POLICY users ON memory.evidence;
DROP POLICY service ON memory.evidence;
DROP POLICY users ON memory.consolidations;
DROP POLICY service ON memory.consolidations;
DROP POLICY users ON memory.observation_states;
DROP POLICY service ON memory.observation_states;
DROP POLICY users ON memory.observations;
DROP POLICY service ON memory.observations;
DROP POLICY users ON memory.members;
DROP POLICY service ON memory.members;
DROP POLICY service ON memory.prompts;
DROP POLICY users ON memory.scopes;
DROP POLICY service ON memory.scopes;
DROP POLICY users ON memory.agents;
DROP POLICY service ON memory.agents;
DROP TRIGGER observations_guard_privacy ON memory.observations;
DROP TRIGGER consolidations_never_change ON memory.consolidations;
DROP TRIGGER observations_never_change ON memory.observations;
DROP FUNCTION memory.digest_candidates, memory.agent_settings, memory.end_retention, memory.read_messages,
    memory.static_layer_at, memory.search, memory.search_messages, memory.search_observations, memory.searched_scopes,
    memory.recency, memory.substance, memory.word_rarities, memory.word_points, memory.rarest_words,
    memory.observations_with, memory.holds_text, memory.lexeme_queries, memory.query_lexemes, memory.known_at,
    memory.static_layer, memory.observation_as_read, memory.observation_version, memory.erase_agent, memory.erase,
    memory.take_back_evidence, memory.detach, memory.speakers_of, memory.newest_speakers, memory.kept_beside,
    memory.tainted_versions, memory.forget_closure, memory.held_contradictions, memory.unsettled, memory.derived,
    memory.alike, memory.peers, memory.shareable, memory.people_behind, memory.trust, memory.propagation_targets,
    memory.members_of, memory.person, memory.released, memory.held_messages, memory.held_observations,
    memory.is_held_id, memory.held_ids, memory.guard_privacy, memory.refuse_change, memory.add_messages,
    memory.says_any, memory.formation_due, memory.refresh_due, memory.pending_observations, memory.my_left_groups,
    memory.my_user_ids, memory.serves_all, memory.served_agent, memory.my_agent, memory.my_scopes,
    memory.retained_messages, memory.retention_start, memory.settings_over, memory.number_setting,
    memory.visible_conversations, memory.visible_scopes, memory.left_groups, memory.user_ids, memory.leave,
    memory.asks_for, memory.enter, memory.principal, memory.content_hash, memory.user_hash, memory.keyed_hash,
    memory.installation_id, memory.hmac_sha256, memory.supports, memory.is_aside, memory.is_sought, memory.is_found,
    memory.in_use;
DROP TABLE memory.installation, memory.observation_states, memory.lineage, memory.judged, memory.evidence,
    memory.observations, memory.consolidations, memory.runs, memory.prompts, memory.messages, memory.members,
    memory.departures, memory.user_aliases, memory.scopes, memory.retrievals, memory.holds, memory.events,
    memory.conversations, memory.agents;
DROP FUNCTION memory.search_tokens;
