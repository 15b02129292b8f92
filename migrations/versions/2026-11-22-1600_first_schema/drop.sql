-- The way back.

DROP VIEW memory.v_imports, memory.v_propagation_flow, memory.v_episodes, memory.v_feedback, memory.v_retrieved,
    memory.v_retrieval, memory.v_model_cost, memory.v_latency, memory.v_formation_funnel, memory.v_events,
    memory.v_users, memory.v_waiting, memory.v_pending, memory.v_backlog, memory.v_contradictions,
    memory.v_scope_timeline, memory.v_messages, memory.v_lifecycle, memory.v_observations;
DO $$
DECLARE
    v_policy record;
BEGIN
    FOR v_policy IN SELECT policyname, tablename FROM pg_policies WHERE schemaname = 'memory' LOOP
        EXECUTE format('DROP POLICY %I ON memory.%I', v_policy.policyname, v_policy.tablename);
    END LOOP;
END
$$;
DROP TRIGGER observation_episodes_are_left ON memory.observation_episodes;
DROP TRIGGER events_follow_corrections ON memory.events;
DROP TRIGGER observations_guard_privacy ON memory.observations;
DROP TRIGGER prompts_never_change ON memory.prompts;
DROP TRIGGER consolidations_never_change ON memory.consolidations;
DROP TRIGGER observations_never_change ON memory.observations;
DROP TRIGGER agents_stay_away ON memory.agents;
DROP TRIGGER observation_states_say_no_more ON memory.observation_states;
DROP TRIGGER observation_states_say_again ON memory.observation_states;
DROP TRIGGER observation_states_say_again_first ON memory.observation_states;
DROP TRIGGER evidence_counts_no_more ON memory.evidence;
DROP TRIGGER evidence_counts_again ON memory.evidence;
DROP TRIGGER evidence_says_again ON memory.evidence;
DROP TRIGGER observation_vectors_take_standing ON memory.observation_vectors;
DROP TRIGGER observation_states_protect ON memory.observation_states;
DROP TRIGGER observations_have_a_tier ON memory.observations;
DROP TRIGGER observation_states_stand_no_more ON memory.observation_states;
DROP TRIGGER observation_states_stand ON memory.observation_states;
DROP TRIGGER observation_states_stand_first ON memory.observation_states;
DROP FUNCTION memory.forecast, memory.decayed, memory.reinforced, memory.decay_links, memory.sweep_tiers,
    memory.tiers_due, memory.sweep_archival, memory.archival_due, memory.sweep_stages, memory.stages_due, memory.expire,
    memory.next_that_may_expire, memory.expiring, memory.expiring_of, memory.expiry_rules, memory.expires, memory.moved,
    memory.is_kept_as_it_is, memory.lock_swept, memory.next_found, memory.next_in_use, memory.lived, memory.next_tier,
    memory.next_stage, memory.lifecycle, memory.digest_candidates, memory.agent_settings, memory.correct_one,
    memory.advance_conversation, memory.apply_formation, memory.episode_of, memory.episode_observations,
    memory.episodes_seen, memory.sees_conversation, memory.drop_empty_episode, memory.follow_correction,
    memory.rejoin_episodes, memory.seal_idle, memory.seal_episode, memory.keep_episodes, memory.episode_topics,
    memory.episode_members, memory.best_topics, memory.seal_reason, memory.jaccard, memory.end_of_day,
    memory.end_counts, memory.end_retention, memory.is_verbatim, memory.read_messages, memory.static_layer_at,
    memory.search, memory.search_messages, memory.search_observations, memory.activated, memory.heirs,
    memory.neighbours, memory.nearest, memory.similar, memory.searched_scopes, memory.newest_sought,
    memory.words_sampled, memory.words_worth, memory.word_rarities, memory.word_points, memory.rarest_words,
    memory.observations_with, memory.holds_text, memory.words_held, memory.eight_held, memory.lexeme_queries,
    memory.query_lexemes, memory.known_at, memory.static_layer, memory.scope_rank, memory.topics, memory.entity,
    memory.newest_known, memory.listed, memory.observation_as_read, memory.observation_version, memory.undo_import,
    memory.imported_beside, memory.imported_texts, memory.erase_agent, memory.forget_one, memory.waits_for,
    memory.erase, memory.topics_said, memory.says, memory.count_unformed, memory.take_back_evidence, memory.detach,
    memory.speakers_of, memory.newest_speakers, memory.kept_beside, memory.tainted_versions, memory.forget_closure,
    memory.held_contradictions, memory.unsettled, memory.derived, memory.alike, memory.peers, memory.shareable,
    memory.people_behind, memory.trust, memory.propagation_targets, memory.left_scopes, memory.former_members,
    memory.group_scopes, memory.members_of, memory.person, memory.released, memory.is_held_message,
    memory.is_held_observation, memory.held_messages, memory.held_observations, memory.holds_message,
    memory.holds_observation, memory.is_held_id, memory.held_ids, memory.parts, memory.guard_privacy,
    memory.refuse_change, memory.keep_part, memory.observe, memory.lock_scopes, memory.store_drafts, memory.plain_words,
    memory.save_links, memory.save_observations, memory.still_says, memory.add_messages, memory.compared_messages,
    memory.message_hash, memory.replace_messages, memory.says_any, memory.formation_due, memory.absorb,
    memory.refresh_due, memory.evict_buffers, memory.is_long, memory.pending_since, memory.pending_observations,
    memory.my_left_groups, memory.my_groups, memory.my_user_ids, memory.serves_all, memory.served_agent,
    memory.my_agent, memory.my_scopes, memory.messages_since, memory.is_kept, memory.retention_start,
    memory.days_setting, memory.settings_over, memory.number_setting, memory.visible_conversations,
    memory.visible_scopes, memory.conversation_owner, memory.is_empty_group, memory.has_left, memory.left_groups,
    memory.user_ids, memory.leave, memory.asks_for, memory.serve, memory.enter, memory.principal, memory.refuse_return,
    memory.drop_fence, memory.fence_agent, memory.refuse_moved, memory.is_copying, memory.join_shards, memory.shard,
    memory.content_hashes, memory.content_hash, memory.user_hash, memory.keyed_hashes, memory.keyed_hash,
    memory.renew_installation, memory.note_journal_read, memory.journal_read, memory.ancestors, memory.incarnation,
    memory.installation_id, memory.keep_said_again, memory.count_said_again, memory.take_standing, memory.keep_hot,
    memory.keep_tier, memory.keep_standing, memory.supports, memory.is_faded, memory.is_aside, memory.is_sought,
    memory.is_found, memory.in_use;
DROP TABLE memory.installation, memory.rechecked, memory.observation_vectors, memory.observation_states,
    memory.observation_retrievals, memory.observation_feedback, memory.observation_episodes, memory.links,
    memory.lineage, memory.judged, memory.evidence, memory.observations, memory.imported_messages,
    memory.consolidations, memory.runs, memory.prompts, memory.messages, memory.members, memory.episodes,
    memory.departures, memory.user_aliases, memory.scopes, memory.retrievals, memory.holds, memory.forgotten_refs,
    memory.forgotten_ids, memory.events, memory.conversations, memory.agent_shards, memory.shards, memory.prices,
    memory.moved_agents, memory.imports, memory.imported, memory.import_rejects, memory.dialects, memory.api_keys,
    memory.agents;
DROP FUNCTION memory.search_vector, memory.user_tokens, memory.search_space, memory.search_tokens;
