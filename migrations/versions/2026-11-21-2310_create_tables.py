"""Create the tables

Frozen: imports nothing of memory_sql.

Revision ID: 5d1c0b7ae214
Revises:
Create Date: 2026-11-21 23:10:00+00:00
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "5d1c0b7ae214"
down_revision = None
branch_labels = ("memory_sql",)
depends_on = None

# Ours makes it beforehand; the Alembic of a host, where we are a branch of its history, doesn't.
CREATE_SCHEMA = """DO $$ BEGIN
    IF to_regnamespace('memory') IS NULL THEN
        CREATE SCHEMA memory;
        COMMENT ON SCHEMA memory IS 'Long-term memory of AI agents (memory_sql).';
    END IF;
END $$"""


def upgrade() -> None:
    op.execute(CREATE_SCHEMA)
    op.create_table(
        "agents",
        sa.Column(
            "agent_key",
            sa.BigInteger(),
            sa.Identity(always=False),
            nullable=False,
            comment="Our own key of the agent; leads every other key.",
        ),
        sa.Column("agent_id", sa.Text(), nullable=False, comment="The host's id of the agent."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the agent was first seen.",
        ),
        sa.CheckConstraint("length(agent_id) BETWEEN 1 AND 255", name=op.f("agents_agent_id_check")),
        sa.PrimaryKeyConstraint("agent_key", name="agents_pkey"),
        sa.UniqueConstraint("agent_id", name="agents_agent_id_key"),
        schema="memory",
        comment="One row per agent: something that converses and remembers.",
    )
    op.create_table(
        "scopes",
        sa.Column("agent_key", sa.BigInteger(), nullable=False, comment="The agent."),
        sa.Column(
            "scope_id",
            sa.BigInteger(),
            sa.Identity(always=False),
            nullable=False,
            comment="Our own key of the scope; unique in the database.",
        ),
        sa.Column(
            "kind",
            sa.Text(),
            nullable=False,
            comment="individual (one user), group, collective (all users) or a special kind.",
        ),
        sa.Column(
            "owner",
            sa.Text(),
            nullable=False,
            comment="Whose it is: c, u:<user>, g:<group>, s:<session>, e:<entity>, a or p.",
        ),
        sa.Column(
            "name",
            sa.Text(),
            server_default=sa.text("''"),
            nullable=False,
            comment="Empty for the owner's main scope, else the name of a scope beside it.",
        ),
        sa.Column("display_name", sa.Text(), nullable=True, comment="How a person would call the owner."),
        sa.Column(
            "is_active",
            sa.Boolean(),
            server_default=sa.text("true"),
            nullable=False,
            comment="False: neither read nor written by the agent any more.",
        ),
        sa.Column(
            "consolidation",
            sa.Text(),
            nullable=True,
            comment="The consolidated text, as of version; null before the first.",
        ),
        sa.Column(
            "version",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Version of the text; only rises.",
        ),
        sa.Column(
            "epoch",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Rises when something is taken out; fences off work in flight.",
        ),
        sa.Column(
            "last_seq",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Number of the newest observation.",
        ),
        sa.Column(
            "done_seq",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Number of the last observation that a consolidation has passed.",
        ),
        sa.Column(
            "extraction_prompt",
            sa.Text(),
            nullable=True,
            comment="What to extract for this scope, beside the base prompt.",
        ),
        sa.Column(
            "consolidation_prompt",
            sa.Text(),
            nullable=True,
            comment="How to consolidate this scope, beside the base prompt.",
        ),
        sa.Column(
            "consolidate",
            sa.Boolean(),
            server_default=sa.text("true"),
            nullable=False,
            comment="False: observations are kept but never consolidated.",
        ),
        sa.Column(
            "consolidation_threshold",
            sa.Integer(),
            nullable=True,
            comment="Pending observations that make it due; null: the default.",
        ),
        sa.Column(
            "consolidation_max_words", sa.Integer(), nullable=True, comment="Words of its text; null: the default."
        ),
        sa.Column(
            "observation_max_items",
            sa.Integer(),
            nullable=True,
            comment="Observations per formation; null: the default.",
        ),
        sa.Column(
            "observation_max_words", sa.Integer(), nullable=True, comment="Words of an observation; null: the default."
        ),
        sa.Column(
            "language",
            sa.Text(),
            server_default=sa.text("'english'"),
            nullable=False,
            comment="Text-search configuration of its observations.",
        ),
        sa.Column(
            "due_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="From when it should be consolidated; null: nothing to do.",
        ),
        sa.Column(
            "fence",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Number of the newest lease; work under an older one is refused.",
        ),
        sa.Column(
            "lease_until",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="Until when somebody works on it; database clock.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the scope was first needed.",
        ),
        sa.Column(
            "last_activity_at", sa.DateTime(timezone=True), nullable=True, comment="When it last gained an observation."
        ),
        sa.Column("consolidated_at", sa.DateTime(timezone=True), nullable=True, comment="When its text last changed."),
        sa.CheckConstraint(
            "CASE kind WHEN 'individual' THEN owner LIKE 'u:_%' WHEN 'group' THEN owner LIKE 'g:_%' WHEN 'session' THEN owner LIKE 's:_%' WHEN 'entity' THEN owner LIKE 'e:_%' WHEN 'collective' THEN owner = 'c' WHEN 'agent' THEN owner = 'a' ELSE owner = 'p' END",
            name=op.f("scopes_owner_check"),
        ),
        sa.CheckConstraint(
            "kind IN ('individual', 'group', 'collective', 'session', 'entity', 'agent', 'guideline')",
            name=op.f("scopes_kind_check"),
        ),
        sa.CheckConstraint(
            "language IN ('arabic', 'armenian', 'basque', 'catalan', 'danish', 'dutch', 'english', 'finnish', 'french', 'german', 'greek', 'hindi', 'hungarian', 'indonesian', 'irish', 'italian', 'lithuanian', 'nepali', 'norwegian', 'portuguese', 'romanian', 'russian', 'serbian', 'simple', 'spanish', 'swedish', 'tamil', 'turkish', 'yiddish')",
            name=op.f("scopes_language_check"),
        ),
        sa.CheckConstraint("(version = 0) = (consolidation IS NULL)", name=op.f("scopes_consolidation_check")),
        sa.CheckConstraint("done_seq BETWEEN 0 AND last_seq", name=op.f("scopes_done_seq_check")),
        sa.ForeignKeyConstraint(["agent_key"], ["memory.agents.agent_key"], name="scopes_agent_key_fkey"),
        sa.PrimaryKeyConstraint("agent_key", "scope_id", name="scopes_pkey"),
        sa.UniqueConstraint("agent_key", "owner", "name", name="scopes_agent_key_owner_name_key"),
        schema="memory",
        comment="One row per scope: whose memory it is, its consolidated text and how far that has read.",
        postgresql_with={"fillfactor": 70},
    )
    op.create_index(
        "scopes_due_at_idx",
        "scopes",
        ["due_at"],
        unique=False,
        schema="memory",
        postgresql_where=sa.text("due_at IS NOT NULL"),
    )
    op.create_table(
        "sessions",
        sa.Column("agent_key", sa.BigInteger(), nullable=False, comment="The agent."),
        sa.Column("session_id", sa.Text(), nullable=False, comment="The host's id of the conversation."),
        sa.Column("user_id", sa.Text(), nullable=False, comment="The user whom the host named with the first message."),
        sa.Column(
            "participants",
            sa.ARRAY(sa.Text()),
            server_default=sa.text("'{}'::text[]"),
            nullable=False,
            comment="All users who have written in it.",
        ),
        sa.Column(
            "group_ids",
            sa.ARRAY(sa.Text()),
            server_default=sa.text("'{}'::text[]"),
            nullable=False,
            comment="The groups in which it takes place.",
        ),
        sa.Column(
            "last_number",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Number of the newest message.",
        ),
        sa.Column(
            "formed_number",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Number of the last message that a formation has read.",
        ),
        sa.Column(
            "unformed_messages",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Messages after that, without the skipped ones.",
        ),
        sa.Column(
            "unformed_tokens", sa.REAL(), server_default=sa.text("0"), nullable=False, comment="Their weighted tokens."
        ),
        sa.Column(
            "epoch",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Rises when a message is forgotten; fences off work in flight.",
        ),
        sa.Column(
            "due_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="From when observations should be formed; null: nothing to do.",
        ),
        sa.Column("due_reason", sa.Text(), nullable=True, comment="signal, messages, tokens, cold or retry."),
        sa.Column(
            "fence",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Number of the newest lease; work under an older one is refused.",
        ),
        sa.Column(
            "lease_until",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="Until when somebody works on it; database clock.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the first message arrived.",
        ),
        sa.Column(
            "last_activity_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the newest message arrived.",
        ),
        sa.CheckConstraint(
            "due_reason IN ('signal', 'messages', 'tokens', 'cold', 'retry')", name=op.f("sessions_due_reason_check")
        ),
        sa.CheckConstraint("(due_at IS NULL) = (due_reason IS NULL)", name=op.f("sessions_due_check")),
        sa.CheckConstraint("formed_number BETWEEN 0 AND last_number", name=op.f("sessions_formed_number_check")),
        sa.ForeignKeyConstraint(["agent_key"], ["memory.agents.agent_key"], name="sessions_agent_key_fkey"),
        sa.PrimaryKeyConstraint("agent_key", "session_id", name="sessions_pkey"),
        schema="memory",
        comment="One row per conversation of an agent, with how far observations have been formed from it.",
        postgresql_with={"fillfactor": 70},
    )
    op.create_index(
        "sessions_due_at_idx",
        "sessions",
        ["due_at"],
        unique=False,
        schema="memory",
        postgresql_where=sa.text("due_at IS NOT NULL"),
    )
    op.create_table(
        "members",
        sa.Column("agent_key", sa.BigInteger(), nullable=False, comment="The agent."),
        sa.Column("scope_id", sa.BigInteger(), nullable=False, comment="The group's scope."),
        sa.Column("user_id", sa.Text(), nullable=False, comment="The user."),
        sa.Column(
            "joined_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="From when.",
        ),
        sa.Column("left_at", sa.DateTime(timezone=True), nullable=True, comment="Until when; null: still a member."),
        sa.Column(
            "source",
            sa.Text(),
            server_default=sa.text("'host'"),
            nullable=False,
            comment="Who said so: host, import or inferred.",
        ),
        sa.CheckConstraint("source IN ('host', 'import', 'inferred')", name=op.f("members_source_check")),
        sa.CheckConstraint("left_at >= joined_at", name=op.f("members_left_at_check")),
        sa.ForeignKeyConstraint(
            ["agent_key", "scope_id"],
            ["memory.scopes.agent_key", "memory.scopes.scope_id"],
            name="members_agent_key_scope_id_fkey",
        ),
        sa.PrimaryKeyConstraint("agent_key", "scope_id", "user_id", "joined_at", name="members_pkey"),
        schema="memory",
        comment="One row per time that a user belonged to a group; open ones let the user see its memory.",
    )
    op.create_index(
        "members_scope_id_user_id_key",
        "members",
        ["agent_key", "scope_id", "user_id"],
        unique=True,
        schema="memory",
        postgresql_where=sa.text("left_at IS NULL"),
    )
    op.create_index(
        "members_user_id_idx",
        "members",
        ["agent_key", "user_id"],
        unique=False,
        schema="memory",
        postgresql_where=sa.text("left_at IS NULL"),
    )
    op.create_table(
        "messages",
        sa.Column("agent_key", sa.BigInteger(), nullable=False, comment="The agent."),
        sa.Column("session_id", sa.Text(), nullable=False, comment="The conversation."),
        sa.Column("number", sa.BigInteger(), nullable=False, comment="1, 2, 3 … in the order of arrival."),
        sa.Column("message_id", sa.Text(), nullable=False, comment="The host's id of the message, or one of ours."),
        sa.Column(
            "role", sa.Text(), nullable=False, comment="user, assistant, agent, system, developer, tool or function."
        ),
        sa.Column(
            "user_id", sa.Text(), nullable=True, comment="The user who wrote it; null for the agent and its tools."
        ),
        sa.Column("speaker", sa.Text(), nullable=True, comment="The speaker's name, as the host gave it."),
        sa.Column(
            "content",
            sa.Text(),
            nullable=True,
            comment="What was said; null once it has been forgotten or its retention has ended.",
        ),
        sa.Column(
            "cleaned",
            sa.ARRAY(sa.Text()),
            server_default=sa.text("'{}'::text[]"),
            nullable=False,
            comment="What had to be changed to store it: nul, surrogate, tag_characters.",
        ),
        sa.Column(
            "weight",
            sa.REAL(),
            nullable=False,
            comment="Weighted tokens: characters / 4.5 × 1 for users, 0.5 for tools, 0.2 for agents.",
        ),
        sa.Column(
            "eligible",
            sa.Boolean(),
            server_default=sa.text("true"),
            nullable=False,
            comment="False: formation skips it (system messages).",
        ),
        sa.Column("signal", sa.Text(), nullable=True, comment="The signal that it gave, if any."),
        sa.Column("said_at", sa.DateTime(timezone=True), nullable=False, comment="When it was said."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it was stored.",
        ),
        sa.CheckConstraint("said_at < '9999-01-01 00:00:00+00'::timestamptz", name=op.f("messages_said_at_check")),
        sa.CheckConstraint("number > 0", name=op.f("messages_number_check")),
        sa.ForeignKeyConstraint(
            ["agent_key", "session_id"],
            ["memory.sessions.agent_key", "memory.sessions.session_id"],
            name="messages_agent_key_session_id_fkey",
        ),
        sa.PrimaryKeyConstraint("agent_key", "session_id", "number", name="messages_pkey"),
        sa.UniqueConstraint(
            "agent_key", "session_id", "message_id", name="messages_agent_key_session_id_message_id_key"
        ),
        schema="memory",
        comment="One row per message. When its text has gone, the row stays, so that it isn't taken twice.",
    )
    op.create_table(
        "runs",
        sa.Column("agent_key", sa.BigInteger(), nullable=False, comment="The agent."),
        sa.Column(
            "run_id",
            sa.BigInteger(),
            sa.Identity(always=False),
            nullable=False,
            comment="Our own key of the run; unique in the database.",
        ),
        sa.Column("kind", sa.Text(), nullable=False, comment="formation (of a session) or consolidation (of a scope)."),
        sa.Column("session_id", sa.Text(), nullable=True, comment="The session, for a formation."),
        sa.Column(
            "from_number", sa.BigInteger(), nullable=True, comment="A formation read the messages after this number …"
        ),
        sa.Column("to_number", sa.BigInteger(), nullable=True, comment="… up to and including this one."),
        sa.Column("scope_id", sa.BigInteger(), nullable=True, comment="The scope, for a consolidation."),
        sa.Column(
            "from_seq", sa.Integer(), nullable=True, comment="A consolidation read the observations after this number …"
        ),
        sa.Column("to_seq", sa.Integer(), nullable=True, comment="… up to and including this one."),
        sa.Column("fence", sa.BigInteger(), nullable=False, comment="The lease under which it ran."),
        sa.Column(
            "state",
            sa.Text(),
            nullable=False,
            comment="running, answered, succeeded, empty (nothing worth keeping) or failed.",
        ),
        sa.Column(
            "answer",
            sa.Text(),
            nullable=True,
            comment="The model's raw answer, from when it came until it was applied.",
        ),
        sa.Column("model", sa.Text(), nullable=True, comment="The model that answered."),
        sa.Column("prompt_version", sa.Text(), nullable=True, comment="The prompt that it was asked with."),
        sa.Column("input_tokens", sa.Integer(), nullable=True, comment="As the provider counts them."),
        sa.Column("output_tokens", sa.Integer(), nullable=True, comment="As the provider counts them."),
        sa.Column("latency_seconds", sa.REAL(), nullable=True, comment="How long the model took."),
        sa.Column("observations", sa.Integer(), nullable=True, comment="Observations that it stored or absorbed."),
        sa.Column(
            "duplicates",
            sa.Integer(),
            nullable=True,
            comment="Observations that were known already and gained evidence.",
        ),
        sa.Column(
            "refused",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
            comment="What the model may not do, counted by reason.",
        ),
        sa.Column("error_code", sa.Text(), nullable=True, comment="Why it failed, in one word."),
        sa.Column("error", sa.Text(), nullable=True, comment="Why it failed, in a sentence without remembered text."),
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it was begun.",
        ),
        sa.Column(
            "finished_at", sa.DateTime(timezone=True), nullable=True, comment="When it ended; null while it runs."
        ),
        sa.CheckConstraint("(state = 'failed') = (error_code IS NOT NULL)", name=op.f("runs_error_code_check")),
        sa.CheckConstraint(
            "(state IN ('running', 'answered')) = (finished_at IS NULL)", name=op.f("runs_finished_at_check")
        ),
        sa.CheckConstraint(
            "CASE kind WHEN 'formation' THEN session_id IS NOT NULL AND scope_id IS NULL ELSE scope_id IS NOT NULL AND session_id IS NULL END",
            name=op.f("runs_target_check"),
        ),
        sa.CheckConstraint("kind IN ('formation', 'consolidation')", name=op.f("runs_kind_check")),
        sa.CheckConstraint(
            "state IN ('running', 'answered', 'succeeded', 'empty', 'failed')", name=op.f("runs_state_check")
        ),
        sa.ForeignKeyConstraint(
            ["agent_key", "scope_id"],
            ["memory.scopes.agent_key", "memory.scopes.scope_id"],
            name="runs_agent_key_scope_id_fkey",
        ),
        sa.ForeignKeyConstraint(
            ["agent_key", "session_id"],
            ["memory.sessions.agent_key", "memory.sessions.session_id"],
            name="runs_agent_key_session_id_fkey",
        ),
        sa.ForeignKeyConstraint(["agent_key"], ["memory.agents.agent_key"], name="runs_agent_key_fkey"),
        sa.PrimaryKeyConstraint("agent_key", "run_id", name="runs_pkey"),
        schema="memory",
        comment="One row per piece of model work: what it read, what it cost, what came of it.",
    )
    op.create_index(
        "runs_scope_id_idx",
        "runs",
        ["agent_key", "scope_id", "to_seq"],
        unique=False,
        schema="memory",
        postgresql_where=sa.text("scope_id IS NOT NULL"),
    )
    op.create_index(
        "runs_session_id_idx",
        "runs",
        ["agent_key", "session_id", "to_number"],
        unique=False,
        schema="memory",
        postgresql_where=sa.text("session_id IS NOT NULL"),
    )
    op.create_table(
        "consolidations",
        sa.Column("agent_key", sa.BigInteger(), nullable=False, comment="The agent."),
        sa.Column("scope_id", sa.BigInteger(), nullable=False, comment="The scope."),
        sa.Column("version", sa.Integer(), nullable=False, comment="1, 2, 3 …; never used twice."),
        sa.Column("base", sa.Integer(), nullable=False, comment="The version that it was written on top of; 0: none."),
        sa.Column("from_seq", sa.Integer(), nullable=False, comment="It absorbed the observations after this number …"),
        sa.Column("to_seq", sa.Integer(), nullable=False, comment="… up to and including this one."),
        sa.Column(
            "extra_seqs",
            sa.ARRAY(sa.Integer()),
            server_default=sa.text("'{}'::integer[]"),
            nullable=False,
            comment="Earlier observations that it absorbed as well.",
        ),
        sa.Column(
            "live",
            sa.Boolean(),
            server_default=sa.text("true"),
            nullable=False,
            comment="False: undone or overtaken by a forgetting.",
        ),
        sa.Column("content", sa.Text(), nullable=False, comment="The text."),
        sa.Column("words", sa.Integer(), nullable=False, comment="Its length."),
        sa.Column("model", sa.Text(), nullable=True, comment="The model that wrote it."),
        sa.Column("prompt_version", sa.Text(), nullable=True, comment="The prompt that it was asked with."),
        sa.Column("reason", sa.Text(), nullable=False, comment="threshold, asked, undo, forget, merge or import."),
        sa.Column("run_id", sa.BigInteger(), nullable=True, comment="The run that made it."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it was written.",
        ),
        sa.CheckConstraint("content ~ '\\S'", name=op.f("consolidations_content_check")),
        sa.CheckConstraint(
            "reason IN ('threshold', 'asked', 'undo', 'forget', 'merge', 'import')",
            name=op.f("consolidations_reason_check"),
        ),
        sa.CheckConstraint("from_seq BETWEEN 0 AND to_seq", name=op.f("consolidations_from_seq_check")),
        sa.CheckConstraint("version > base AND base >= 0", name=op.f("consolidations_base_check")),
        sa.ForeignKeyConstraint(
            ["agent_key", "run_id"],
            ["memory.runs.agent_key", "memory.runs.run_id"],
            name="consolidations_agent_key_run_id_fkey",
        ),
        sa.ForeignKeyConstraint(
            ["agent_key", "scope_id"],
            ["memory.scopes.agent_key", "memory.scopes.scope_id"],
            name="consolidations_agent_key_scope_id_fkey",
        ),
        sa.PrimaryKeyConstraint("agent_key", "scope_id", "version", name="consolidations_pkey"),
        schema="memory",
        comment="One row per version of a scope's text. Never changed, but for live.",
    )
    op.create_index(
        "consolidations_from_seq_key",
        "consolidations",
        ["agent_key", "scope_id", "from_seq"],
        unique=True,
        schema="memory",
        postgresql_where=sa.text("live AND to_seq > from_seq"),
    )
    op.create_table(
        "observations",
        sa.Column("agent_key", sa.BigInteger(), nullable=False, comment="The agent."),
        sa.Column("scope_id", sa.BigInteger(), nullable=False, comment="The scope."),
        sa.Column(
            "seq", sa.Integer(), nullable=False, comment="1, 2, 3 … in the order in which the scope gained them."
        ),
        sa.Column("content", sa.Text(), nullable=False, comment="What is remembered."),
        sa.Column("observed_at", sa.DateTime(timezone=True), nullable=False, comment="When it was said."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When we came to know it.",
        ),
        sa.Column("source_kind", sa.Text(), nullable=False, comment="formation, observe, propagation or import."),
        sa.Column("session_id", sa.Text(), nullable=True, comment="The conversation that it comes from."),
        sa.Column("speaker", sa.Text(), nullable=True, comment="Who said it, by name."),
        sa.Column(
            "message_ids",
            sa.ARRAY(sa.Text()),
            server_default=sa.text("'{}'::text[]"),
            nullable=False,
            comment="The messages that it comes from.",
        ),
        sa.Column(
            "related_users",
            sa.ARRAY(sa.Text()),
            server_default=sa.text("'{}'::text[]"),
            nullable=False,
            comment="The users who said it.",
        ),
        sa.Column("run_id", sa.BigInteger(), nullable=True, comment="The run that made it."),
        sa.Column("legacy_ref", sa.Text(), nullable=True, comment="The document that it was imported from."),
        sa.Column(
            "lane",
            sa.Text(),
            server_default=sa.text("'absorb'"),
            nullable=False,
            comment="absorb (will be consolidated) or buffer (newest are kept, never consolidated).",
        ),
        sa.Column("category", sa.Text(), nullable=True, comment="fact, preference, decision …; null: not classified."),
        sa.Column("kind", sa.Text(), nullable=True, comment="episode, note, fact or procedure; null: not classified."),
        sa.Column("confidence", sa.REAL(), nullable=True, comment="0 to 1, when it was made; null: not known."),
        sa.Column("importance", sa.REAL(), nullable=True, comment="0 to 1, when it was made; null: not known."),
        sa.Column(
            "sensitivity",
            sa.Text(),
            server_default=sa.text("'private'"),
            nullable=False,
            comment="public, private or sensitive.",
        ),
        sa.Column(
            "no_propagate",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="True: never leaves its scope.",
        ),
        sa.Column(
            "confidential",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="True: said in confidence; never leaves its scope.",
        ),
        sa.Column(
            "tags",
            sa.ARRAY(sa.Text()),
            server_default=sa.text("'{}'::text[]"),
            nullable=False,
            comment="The host's tags.",
        ),
        sa.Column(
            "metadata",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
            comment="The host's own data about it.",
        ),
        sa.Column(
            "content_hash",
            sa.LargeBinary(),
            nullable=True,
            comment="SHA-256 of the text's normal form; null: never a duplicate.",
        ),
        sa.Column("hash_version", sa.SmallInteger(), nullable=False, comment="Which normal form."),
        sa.Column(
            "language",
            sa.Text(),
            server_default=sa.text("'english'"),
            nullable=False,
            comment="Text-search configuration.",
        ),
        sa.Column(
            "search_extra",
            sa.Text(),
            server_default=sa.text("''"),
            nullable=False,
            comment="What the language's parser would miss: identifiers, n-grams, folded forms.",
        ),
        sa.Column(
            "search",
            postgresql.TSVECTOR(),
            sa.Computed(
                "(CASE language WHEN 'arabic' THEN to_tsvector('pg_catalog.arabic'::regconfig, left(content, 100000)) WHEN 'armenian' THEN to_tsvector('pg_catalog.armenian'::regconfig, left(content, 100000)) WHEN 'basque' THEN to_tsvector('pg_catalog.basque'::regconfig, left(content, 100000)) WHEN 'catalan' THEN to_tsvector('pg_catalog.catalan'::regconfig, left(content, 100000)) WHEN 'danish' THEN to_tsvector('pg_catalog.danish'::regconfig, left(content, 100000)) WHEN 'dutch' THEN to_tsvector('pg_catalog.dutch'::regconfig, left(content, 100000)) WHEN 'english' THEN to_tsvector('pg_catalog.english'::regconfig, left(content, 100000)) WHEN 'finnish' THEN to_tsvector('pg_catalog.finnish'::regconfig, left(content, 100000)) WHEN 'french' THEN to_tsvector('pg_catalog.french'::regconfig, left(content, 100000)) WHEN 'german' THEN to_tsvector('pg_catalog.german'::regconfig, left(content, 100000)) WHEN 'greek' THEN to_tsvector('pg_catalog.greek'::regconfig, left(content, 100000)) WHEN 'hindi' THEN to_tsvector('pg_catalog.hindi'::regconfig, left(content, 100000)) WHEN 'hungarian' THEN to_tsvector('pg_catalog.hungarian'::regconfig, left(content, 100000)) WHEN 'indonesian' THEN to_tsvector('pg_catalog.indonesian'::regconfig, left(content, 100000)) WHEN 'irish' THEN to_tsvector('pg_catalog.irish'::regconfig, left(content, 100000)) WHEN 'italian' THEN to_tsvector('pg_catalog.italian'::regconfig, left(content, 100000)) WHEN 'lithuanian' THEN to_tsvector('pg_catalog.lithuanian'::regconfig, left(content, 100000)) WHEN 'nepali' THEN to_tsvector('pg_catalog.nepali'::regconfig, left(content, 100000)) WHEN 'norwegian' THEN to_tsvector('pg_catalog.norwegian'::regconfig, left(content, 100000)) WHEN 'portuguese' THEN to_tsvector('pg_catalog.portuguese'::regconfig, left(content, 100000)) WHEN 'romanian' THEN to_tsvector('pg_catalog.romanian'::regconfig, left(content, 100000)) WHEN 'russian' THEN to_tsvector('pg_catalog.russian'::regconfig, left(content, 100000)) WHEN 'serbian' THEN to_tsvector('pg_catalog.serbian'::regconfig, left(content, 100000)) WHEN 'simple' THEN to_tsvector('pg_catalog.simple'::regconfig, left(content, 100000)) WHEN 'spanish' THEN to_tsvector('pg_catalog.spanish'::regconfig, left(content, 100000)) WHEN 'swedish' THEN to_tsvector('pg_catalog.swedish'::regconfig, left(content, 100000)) WHEN 'tamil' THEN to_tsvector('pg_catalog.tamil'::regconfig, left(content, 100000)) WHEN 'turkish' THEN to_tsvector('pg_catalog.turkish'::regconfig, left(content, 100000)) WHEN 'yiddish' THEN to_tsvector('pg_catalog.yiddish'::regconfig, left(content, 100000)) END) || to_tsvector('pg_catalog.simple'::regconfig, left(search_extra, 100000))",
                persisted=True,
            ),
            nullable=False,
            comment="What full-text search sees.",
        ),
        sa.CheckConstraint("content ~ '\\S'", name=op.f("observations_content_check")),
        sa.CheckConstraint("lane IN ('absorb', 'buffer')", name=op.f("observations_lane_check")),
        sa.CheckConstraint(
            "language IN ('arabic', 'armenian', 'basque', 'catalan', 'danish', 'dutch', 'english', 'finnish', 'french', 'german', 'greek', 'hindi', 'hungarian', 'indonesian', 'irish', 'italian', 'lithuanian', 'nepali', 'norwegian', 'portuguese', 'romanian', 'russian', 'serbian', 'simple', 'spanish', 'swedish', 'tamil', 'turkish', 'yiddish')",
            name=op.f("observations_language_check"),
        ),
        sa.CheckConstraint(
            "observed_at < '9999-01-01 00:00:00+00'::timestamptz", name=op.f("observations_observed_at_check")
        ),
        sa.CheckConstraint(
            "sensitivity IN ('public', 'private', 'sensitive')", name=op.f("observations_sensitivity_check")
        ),
        sa.CheckConstraint(
            "source_kind IN ('formation', 'observe', 'propagation', 'import')",
            name=op.f("observations_source_kind_check"),
        ),
        sa.CheckConstraint("confidence BETWEEN 0 AND 1", name=op.f("observations_confidence_check")),
        sa.CheckConstraint("importance BETWEEN 0 AND 1", name=op.f("observations_importance_check")),
        sa.CheckConstraint("seq > 0", name=op.f("observations_seq_check")),
        sa.ForeignKeyConstraint(
            ["agent_key", "run_id"],
            ["memory.runs.agent_key", "memory.runs.run_id"],
            name="observations_agent_key_run_id_fkey",
        ),
        sa.ForeignKeyConstraint(
            ["agent_key", "scope_id"],
            ["memory.scopes.agent_key", "memory.scopes.scope_id"],
            name="observations_agent_key_scope_id_fkey",
        ),
        sa.PrimaryKeyConstraint("agent_key", "scope_id", "seq", name="observations_pkey"),
        schema="memory",
        comment="One row per observation, one remembered thing. Its text never changes.",
    )
    op.create_table(
        "evidence",
        sa.Column("agent_key", sa.BigInteger(), nullable=False, comment="The agent."),
        sa.Column("evidence_id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="Our own key."),
        sa.Column("scope_id", sa.BigInteger(), nullable=False, comment="The observation's scope."),
        sa.Column("seq", sa.Integer(), nullable=False, comment="The observation."),
        sa.Column(
            "session_id",
            sa.Text(),
            nullable=True,
            comment="The message's conversation; null for what the host stated itself.",
        ),
        sa.Column("number", sa.BigInteger(), nullable=True, comment="The message."),
        sa.Column("user_id", sa.Text(), nullable=True, comment="The user who said it."),
        sa.Column("run_id", sa.BigInteger(), nullable=True, comment="The run that found it."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it was found.",
        ),
        sa.CheckConstraint("(session_id IS NULL) = (number IS NULL)", name=op.f("evidence_number_check")),
        sa.ForeignKeyConstraint(
            ["agent_key", "run_id"],
            ["memory.runs.agent_key", "memory.runs.run_id"],
            name="evidence_agent_key_run_id_fkey",
        ),
        sa.ForeignKeyConstraint(
            ["agent_key", "scope_id", "seq"],
            ["memory.observations.agent_key", "memory.observations.scope_id", "memory.observations.seq"],
            name="evidence_agent_key_scope_id_seq_fkey",
        ),
        sa.ForeignKeyConstraint(
            ["agent_key", "session_id", "number"],
            ["memory.messages.agent_key", "memory.messages.session_id", "memory.messages.number"],
            name="evidence_agent_key_session_id_number_fkey",
        ),
        sa.PrimaryKeyConstraint("agent_key", "evidence_id", name="evidence_pkey"),
        schema="memory",
        comment="One row per message or person that stands behind an observation; it lives while it has some.",
    )
    op.create_index(
        "evidence_number_idx",
        "evidence",
        ["agent_key", "session_id", "number"],
        unique=False,
        schema="memory",
        postgresql_where=sa.text("number IS NOT NULL"),
    )
    op.create_index("evidence_seq_idx", "evidence", ["agent_key", "scope_id", "seq"], unique=False, schema="memory")
    op.create_index(
        "evidence_user_id_idx",
        "evidence",
        ["agent_key", "user_id"],
        unique=False,
        schema="memory",
        postgresql_where=sa.text("user_id IS NOT NULL"),
    )
    op.create_table(
        "observation_states",
        sa.Column("agent_key", sa.BigInteger(), nullable=False, comment="The agent."),
        sa.Column("scope_id", sa.BigInteger(), nullable=False, comment="The scope."),
        sa.Column("seq", sa.Integer(), nullable=False, comment="The observation."),
        sa.Column(
            "status",
            sa.Text(),
            server_default=sa.text("'active'"),
            nullable=False,
            comment="active, superseded, archived, quarantined or evicted.",
        ),
        sa.Column(
            "status_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Since when.",
        ),
        sa.Column(
            "repend",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="True: waits for a consolidation although one has passed it.",
        ),
        sa.CheckConstraint(
            "status IN ('active', 'superseded', 'archived', 'quarantined', 'evicted')",
            name=op.f("observation_states_status_check"),
        ),
        sa.ForeignKeyConstraint(
            ["agent_key", "scope_id", "seq"],
            ["memory.observations.agent_key", "memory.observations.scope_id", "memory.observations.seq"],
            name="observation_states_agent_key_scope_id_seq_fkey",
        ),
        sa.PrimaryKeyConstraint("agent_key", "scope_id", "seq", name="observation_states_pkey"),
        schema="memory",
        comment="One row per observation whose state differs from the defaults: what may change about it.",
        postgresql_with={"fillfactor": 70},
    )
    op.create_index(
        "observation_states_repend_idx",
        "observation_states",
        ["agent_key", "scope_id", "seq"],
        unique=False,
        schema="memory",
        postgresql_where=sa.text("repend"),
    )


def downgrade() -> None:
    op.drop_table("observation_states", schema="memory")
    op.drop_table("evidence", schema="memory")
    op.drop_table("observations", schema="memory")
    op.drop_table("consolidations", schema="memory")
    op.drop_table("runs", schema="memory")
    op.drop_table("messages", schema="memory")
    op.drop_table("members", schema="memory")
    op.drop_table("sessions", schema="memory")
    op.drop_table("scopes", schema="memory")
    op.drop_table("agents", schema="memory")
