SET session_replication_role = replica;
DELETE FROM memory.installation;
COPY memory.shards (shard, number, agents, version, joined_at) FROM stdin;
\.
COPY memory.agent_shards (agent_id, shard, version, moving_to, placed_at) FROM stdin;
\.
COPY memory.agents (agent_key, agent_id, created_at, settings, languages) FROM stdin;
1	ada	2026-11-30 13:47:27.878065+00	{}	{english}
\.
COPY memory.api_keys (key_id, secret_hash, prefix, name, agents, rights, user_id, created_at, created_by, expires_at, revoked_at, last_used_on, entered) FROM stdin;
\.
COPY memory.conversations (agent_key, conversation_id, user_id, participants, group_ids, refused, last_number, formed_number, unformed_messages, unformed_tokens, epoch, due_at, due_reason, fence, lease_until, created_at, last_activity_at, excluded, shared, failures, errors, dead_run_id, waits_below, time_zone, unformed_since, text_since) FROM stdin;
1	phone	mia	{mia}	{harbor}	{}	1	1	0	0	0	\N	\N	1	\N	2026-11-30 13:47:27.878065+00	2026-11-30 13:47:27.878065+00	f	f	0	0	\N	4	\N	\N	2026-11-30 13:47:27.878065+00
1	new	ann	{ann}	{}	{}	1	0	1	1.78	0	2026-11-30 20:00:00+00	rest	0	\N	2026-11-30 13:47:30.589375+00	2026-11-30 13:47:30.589375+00	f	f	0	0	\N	4	\N	2026-11-30 13:47:30.589375+00	2026-11-30 13:47:30.589375+00
\.
COPY memory.scopes (agent_key, scope_id, kind, owner, name, display_name, is_active, version, epoch, last_seq, done_seq, extraction_model, consolidation_model, consolidate, consolidation_threshold, consolidation_characters, consolidation_max_words, lanes, observation_min_items, observation_max_items, observation_max_words, buffer_min_items, buffer_max_items, buffer_max_words, buffer_max, language, former_languages, due_at, fence, lease_until, created_at, last_activity_at, consolidated_at, held_seq, failures, errors, extraction_mode, sharing, rebuild, suspects, speakers, propagate_at, propagated_at, propagated_version, propagation_failures, propagation_errors, recheck_at, rechecked_at, rechecked_seq, waits_below, import_id) FROM stdin;
1	2	individual	u:mia		\N	t	1	0	2	1	\N	\N	t	\N	\N	\N	absorb	0	\N	\N	0	5	30	100	english	{}	\N	1	\N	2026-11-30 13:47:28.417589+00	2026-11-30 13:47:30.345286+00	2026-11-30 13:47:30.32628+00	0	0	0	batch	\N	f	0	{}	2026-11-30 13:47:30.32628+00	\N	0	0	0	\N	\N	0	10	\N
1	1	group	g:harbor		harbor	t	0	0	1	0	\N	\N	t	\N	\N	\N	absorb	0	\N	\N	0	5	30	100	english	{}	\N	0	\N	2026-11-30 13:47:27.878065+00	2026-11-30 13:47:30.477376+00	\N	0	0	0	batch	\N	f	0	{}	\N	\N	0	0	0	\N	\N	0	10	\N
1	3	individual	u:bo		\N	t	0	1	1	0	\N	\N	t	\N	\N	\N	absorb	0	\N	\N	0	5	30	100	english	{}	\N	0	\N	2026-11-30 13:47:30.481698+00	2026-11-30 13:47:30.481698+00	\N	0	0	0	batch	\N	f	0	{}	\N	\N	0	0	0	\N	\N	0	10	\N
\.
COPY memory.runs (agent_key, run_id, kind, conversation_id, from_number, to_number, scope_id, from_seq, to_seq, fence, state, answer, held, model, prompt_version, input_tokens, output_tokens, latency_seconds, observations, duplicates, refused, error_code, error, started_at, finished_at, seen, calls, import_id, forgotten) FROM stdin;
1	1	formation	phone	0	1	\N	\N	\N	1	succeeded	\N	\N	scripted	extraction@9+9c205e93	100	10	0.01	1	0	{}	\N	\N	2026-11-30 13:47:28.370184+00	2026-11-30 13:47:28.417589+00	{}	1	\N	0
1	2	consolidation	\N	\N	\N	2	0	1	1	succeeded	\N	\N	scripted	consolidation@8+40ad47b9	100	10	0.01	1	\N	{}	\N	\N	2026-11-30 13:47:30.296885+00	2026-11-30 13:47:30.32628+00	{}	1	\N	0
\.
COPY memory.consolidations (agent_key, scope_id, version, base, from_seq, to_seq, extra_seqs, live, content, words, model, prompt_version, reason, run_id, created_at, live_until, contradictions, repetitions) FROM stdin;
1	2	1	0	0	1	{}	t	Mia likes the berth near the crane.	7	scripted	consolidation@8+40ad47b9	asked	2	2026-11-30 13:47:30.32628+00	\N	[]	[]
\.
COPY memory.departures (agent_key, user_hash, scope_id) FROM stdin;
\.
COPY memory.dialects (server, model, api, output, without, found_at) FROM stdin;
\.
COPY memory.episodes (agent_key, episode_id, conversation_id, opened_at, last_at, sealed_at, seal_reason, trace_id) FROM stdin;
1	1	phone	2026-11-30 13:47:27.878065+00	2026-11-30 13:47:27.878065+00	\N	\N	\N
\.
COPY memory.events (agent_key, event_id, kind, actor, reason, scope_id, seq, version, conversation_id, run_id, detail, created_at) FROM stdin;
1	1	verification	mia	\N	2	2	\N	\N	\N	{"to": "confirmed", "from": "unverified"}	2026-11-30 13:47:30.439572+00
1	2	forget	\N	\N	\N	\N	\N	\N	\N	{"id": "aa216e80-f6f4-43df-bc57-2e4d02d17edd", "counts": {"runs": 0, "judged": 0, "lineage": 0, "members": 0, "evidence": 1, "messages": 0, "observations": 1, "consolidations": 0}, "target": {"user_id": "bo"}, "observations": ["o3-1"]}	2026-11-30 13:47:30.489967+00
1	3	hold	\N	\N	\N	\N	\N	\N	\N	{"action": "hold", "hold_id": 1, "user_id": "mia"}	2026-11-30 13:47:30.56793+00
\.
COPY memory.messages (agent_key, conversation_id, number, message_id, role, user_id, speaker, content, content_hash, cleaned, weight, eligible, signal, said_at, given_at, created_at, owner, group_ids, language, search_extra, withdrawn_by, verbatim) FROM stdin;
1	phone	1	7c1717b115c646488896f3c6df60e108	user	mia	\N	I like the berth near the crane.	\N	{}	7.11	t	\N	2026-11-30 13:47:27.878065+00	\N	2026-11-30 13:47:27.878065+00	u:mia	\N	english		\N	f
1	new	1	1e2cae9003dc40589cbc18759b8271de	user	ann	\N	I'm Ann.	\N	{}	1.78	t	\N	2026-11-30 13:47:30.589375+00	\N	2026-11-30 13:47:30.589375+00	u:ann	\N	english		\N	f
\.
COPY memory.observations (agent_key, scope_id, seq, content, observed_at, given_at, said_again_at, created_at, source_kind, conversation_id, speaker, message_ids, related_users, subjects, part_of, run_id, legacy_ref, lane, standing, cold, category, kind, confidence, importance, classified_by, until, sensitivity, no_propagate, confidential, proposed, tags, metadata, content_hash, hash_version, language, search_extra, terms, dates, fact_key, categories) FROM stdin;
1	2	1	Mia likes the berth near the crane.	2026-11-30 13:47:27.878065+00	\N	\N	2026-11-30 13:47:28.417589+00	formation	phone	\N	{7c1717b115c646488896f3c6df60e108}	{mia}	{}	\N	1	\N	absorb	active	f	\N	\N	\N	0.5	1	\N	private	f	f	\N	{}	{}	\\xa47460a558e9e52aa7e361d06051b12e2ecd795ea40deda897b410b3cc8c1923	3	english			\N	\N	{}
1	2	2	Mia drinks tea.	2026-11-30 13:47:30.345286+00	\N	\N	2026-11-30 13:47:30.345286+00	observe	\N	\N	{}	{mia}	{}	\N	\N	\N	absorb	active	f	\N	\N	\N	0.5	1	\N	private	f	f	\N	{}	{}	\\xf64dd27291a80e2cfd973883b9a5e59d6eaa47a88b5bd63c0e0eac76d2d65834	3	english			\N	\N	{}
1	1	1	The boat needs paint.	2026-11-30 13:47:30.477376+00	\N	\N	2026-11-30 13:47:30.477376+00	observe	\N	\N	{}	{}	{}	\N	\N	\N	absorb	active	f	\N	note	\N	0.5	1	\N	private	f	f	\N	{}	{}	\\xd6fcd1184b051f9209128558d8e408a69c4f946a78ff9374ba997e7ae28887ac	3	english			\N	\N	{}
\.
COPY memory.evidence (agent_key, evidence_id, scope_id, seq, conversation_id, number, user_id, run_id, created_at, repeated_seq, withdrawn_by, said_at, confidence, apart) FROM stdin;
1	1	2	1	phone	1	mia	1	2026-11-30 13:47:28.417589+00	\N	\N	\N	\N	f
1	2	2	2	\N	\N	mia	\N	2026-11-30 13:47:30.345286+00	\N	\N	\N	\N	f
1	3	2	2	\N	\N	mia	\N	2026-11-30 13:47:30.439572+00	\N	\N	\N	\N	f
1	4	1	1	\N	\N	\N	\N	2026-11-30 13:47:30.477376+00	\N	\N	\N	\N	f
\.
COPY memory.forgotten_ids (agent_key, kind, id_hash, forgotten_at) FROM stdin;
1	user	\\x59231cdbd986e573cf0a99467e1a41603b88d2869983355ea6466649a03875a3	2026-11-30 13:47:30.489967+00
\.
COPY memory.forgotten_refs (agent_key, ref_hash, forgotten_at) FROM stdin;
\.
COPY memory.holds (agent_key, hold_id, kind, target, actor, reason, created_at, released_at) FROM stdin;
1	1	user	mia	\N	\N	2026-11-30 13:47:30.56793+00	\N
\.
COPY memory.import_rejects (import_id, number, collection, legacy_id, part, place, "position", outcome, reason) FROM stdin;
\.
COPY memory.imported (agent_key, scope_id, legacy_ref, import_id, seq, source_hash, stored_hash, ref_hash) FROM stdin;
\.
COPY memory.imported_messages (agent_key, conversation_id, number, import_id, source_hash, stored_hash, ref_hash) FROM stdin;
\.
COPY memory.imports (import_id, source, options, state, accounts, key_hash, started_at, finished_at, rolled_back_at) FROM stdin;
\.
COPY memory.installation (id, key, created_at, incarnation, place, ancestors, journal_read, journal_tail, shard, shard_number, shard_set) FROM stdin;
1b7e7027-32c4-408b-94dd-1d6f77f30ee0	\\x75c073da81d1324b93e6d2b86a6734d9b69a745662fad0579aa6cb23922d91a0	2026-11-30 13:47:26.486982+00	3d92b44e-c34a-4b42-aa10-5846593da79a	7713960743939265201/16384/kept_674	{}	0	\\x	\N	\N	\N
\.
COPY memory.judged (agent_key, source_scope_id, source_seq, target_scope_id, outcome, reason, seq, run_id, judged_at) FROM stdin;
\.
COPY memory.lineage (agent_key, scope_id, seq, source_scope_id, source_seq, run_id, created_at, whole) FROM stdin;
\.
COPY memory.links (agent_key, scope_id, seq, to_seq, kind, label, weight, confidence, created_at, reinforced_at, charged_until) FROM stdin;
\.
COPY memory.members (agent_key, scope_id, user_id, joined_at, left_at, kept, source, import_id) FROM stdin;
1	1	mia	2026-11-30 13:47:27.878065+00	\N	f	host	\N
\.
COPY memory.moved_agents (agent_id, moved_key, shard, moved_at) FROM stdin;
\.
COPY memory.observation_episodes (agent_key, scope_id, seq, episode_id, topics) FROM stdin;
1	2	1	1	{}
\.
COPY memory.observation_feedback (agent_key, scope_id, seq, day, total, times) FROM stdin;
\.
COPY memory.observation_retrievals (agent_key, scope_id, seq, day, surface, times) FROM stdin;
\.
COPY memory.observation_states (agent_key, scope_id, seq, status, status_at, repend, superseded_by, follows, verification, stage, policy, withdrawn_by, said_again_at, expires_at, resolved, resolved_at) FROM stdin;
1	2	2	active	2026-11-30 13:47:30.446281+00	f	\N	f	confirmed	candidate	durable	\N	\N	\N	\N	\N
\.
COPY memory.observation_vectors (agent_key, scope_id, seq, model, bits, made_at, standing, cold) FROM stdin;
1	2	1	use-multilingual-3:512	01111010011111111111110101110001000000111000000111010111011100101011011110111001001011110000111000110000100010100011100010010010010100010111000110011111101001110011100000100001011000011111101100011000001111000010010001101111100101011000000111000011111001001000000101110110110111000010110011010011000110000001001010010001101100111001010110100111000100011010100110101100000011001000011010010000101011000000111100000011000010011011000001011100001011011111000010010010001000111001011101100011011001111010011011001011	2026-11-30 13:47:30.276427+00	active	f
\.
COPY memory.prices (model, valid_from, currency, input_per_million, output_per_million) FROM stdin;
\.
COPY memory.prompts (agent_key, scope_id, name, version, mode, body, created_at, import_id) FROM stdin;
\.
COPY memory.rechecked (agent_key, scope_id, seq, other_seq, outcome, said_at, compared_at) FROM stdin;
\.
COPY memory.retrievals (agent_key, day, surface, reason, queries, without_hit, seconds, slowest_seconds) FROM stdin;
\.
COPY memory.user_aliases (agent_key, user_id, into_user_id, created_at, ended_at, withdrawn_by) FROM stdin;
\.
SELECT pg_catalog.setval('memory.agents_agent_key_seq', 1, true);
SELECT pg_catalog.setval('memory.api_keys_key_id_seq', 1, false);
SELECT pg_catalog.setval('memory.episodes_episode_id_seq', 1, true);
SELECT pg_catalog.setval('memory.events_event_id_seq', 3, true);
SELECT pg_catalog.setval('memory.evidence_evidence_id_seq', 5, true);
SELECT pg_catalog.setval('memory.holds_hold_id_seq', 1, true);
SELECT pg_catalog.setval('memory.imports_import_id_seq', 1, false);
SELECT pg_catalog.setval('memory.runs_run_id_seq', 2, true);
SELECT pg_catalog.setval('memory.scopes_scope_id_seq', 3, true);
