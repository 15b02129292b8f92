"""Scopes, who belongs to those of groups, and the versions of their texts."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, get_args

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Identity,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Text,
    UniqueConstraint,
    select,
    table,
    text,
)
from sqlalchemy import column as sql_column
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, column_property, mapped_column

from memory_sql.config.kinds import (
    BUFFER_MAX,
    BUFFER_MAX_ITEMS,
    BUFFER_MAX_WORDS,
    LANGUAGES,
    ExtractionMode,
    Lanes,
    PromptMode,
    PromptName,
    Sharing,
)
from memory_sql.db.models.base import (
    FALSE,
    NEVER_JUDGED,
    NO_ITEMS,
    NO_NUMBERS,
    NO_TEXTS,
    NOW,
    SCHEMA,
    TRUE,
    ZERO,
    Base,
    column,
    constant,
    erase,
    host_id,
    key_of,
    one_of,
    related,
)

if TYPE_CHECKING:
    from memory_sql.db.models.agents import AgentRow
    from memory_sql.db.models.observations import ObservationRow
    from memory_sql.db.models.runs import RunRow


_texts = table(
    "consolidations",
    sql_column("agent_key", BigInteger),
    sql_column("scope_id", BigInteger),
    sql_column("version", Integer),
    sql_column("content", Text),
    schema=SCHEMA,
)


BUSY = "lease_until IS NOT NULL OR failures > 0 OR errors > 0 OR propagation_failures > 0 OR propagation_errors > 0"


class ScopeRow(Base):
    __tablename__ = "scopes"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "scope_id"),
        key_of("agents"),
        UniqueConstraint("agent_key", "owner", "name"),
        one_of("kind", "individual", "group", "collective", "conversation", "entity", "agent", "guideline"),
        CheckConstraint(
            "CASE kind WHEN 'individual' THEN owner LIKE 'u:_%' WHEN 'group' THEN owner LIKE 'g:_%' "
            "WHEN 'conversation' THEN owner LIKE 's:_%' WHEN 'entity' THEN owner LIKE 'e:_%' "
            "WHEN 'collective' THEN owner = 'c' WHEN 'agent' THEN owner = 'a' ELSE owner = 'p' END",
            name="owner",
        ),
        CheckConstraint("done_seq BETWEEN 0 AND last_seq", name="done_seq"),
        one_of("language", *LANGUAGES),
        one_of("extraction_mode", *get_args(ExtractionMode)),
        one_of("lanes", *get_args(Lanes)),
        one_of("sharing", *get_args(Sharing)),
        CheckConstraint("sharing IS NULL OR kind = 'group'", name="sharing_kind"),
        Index("scopes_owner_idx", text("NULLIF(substr(owner, 3), ''::text)"), "agent_key"),  # owner_id of the views
        Index("scopes_due_at_idx", "due_at", postgresql_where=text("due_at IS NOT NULL")),
        Index("scopes_propagate_at_idx", "propagate_at", postgresql_where=text("propagate_at IS NOT NULL")),
        Index(
            "scopes_waits_below_idx",
            "agent_key",
            "waits_below",
            postgresql_where=text("due_at IS NULL AND consolidation_threshold IS NULL"),
        ),
        Index(
            "scopes_consolidation_threshold_idx",
            "agent_key",
            "consolidation_threshold",
            postgresql_where=text("due_at IS NULL AND waits_below > consolidation_threshold"),
        ),
        Index("scopes_lease_until_idx", "agent_key", postgresql_where=text(BUSY)),
        # Room in the page keeps the frequent updates of a scope's counters in place (HOT).
        {
            "comment": "One row per scope: whose memory it is, its consolidated text and how far that has read.",
            "postgresql_with": {"fillfactor": 70},
        },
    )

    agent_key: Mapped[int] = column("The agent.")
    scope_id: Mapped[int] = column("Our own key of the scope; unique in the database.", Identity(always=False))
    kind: Mapped[str] = constant("individual (one user), group, collective (all users) or a special kind.")
    owner: Mapped[str] = host_id("Whose it is: c, u:<user>, g:<group>, s:<conversation>, e:<entity>, a or p.")
    name: Mapped[str] = host_id(
        "Empty for the owner's main scope, else the name of a scope beside it.", server_default=text("''")
    )
    display_name: Mapped[str | None] = erase("How a person would call the owner.")
    is_active: Mapped[bool] = column("False: neither read nor written by the agent any more.", server_default=TRUE)
    version: Mapped[int] = column(
        "Version of the text, which is in consolidations; where none has this number there is no text. Only rises.",
        Integer,
        server_default=ZERO,
    )
    epoch: Mapped[int] = column(
        "Rises when something is deleted; fences off work in flight.", Integer, server_default=ZERO
    )
    last_seq: Mapped[int] = column("Number of the newest observation.", Integer, server_default=ZERO)
    done_seq: Mapped[int] = column(
        "Number of the last observation that a consolidation has passed.", Integer, server_default=ZERO
    )
    extraction_model: Mapped[str | None] = constant("Model of a call of its own; null: asked with the others.")
    consolidation_model: Mapped[str | None] = constant("Model that writes its text; null: the default.")
    consolidate: Mapped[bool] = column("False: observations are kept but never consolidated.", server_default=TRUE)
    consolidation_threshold: Mapped[int | None] = column(
        "Pending observations that make it due; null: the default.", Integer
    )
    consolidation_max_words: Mapped[int | None] = column("Words of its text; null: the default.", Integer)
    lanes: Mapped[str] = constant(
        "Where what is formed for it goes: absorb (into its text), buffer (the newest few, never its text) or both.",
        server_default=text("'absorb'"),
    )
    observation_min_items: Mapped[int] = column(
        "Observations that a formation is asked for.", Integer, server_default=ZERO
    )
    observation_max_items: Mapped[int | None] = column(
        "Observations per formation; null: the default of its kind.", Integer
    )
    observation_max_words: Mapped[int | None] = column("Words of an observation; null: the default.", Integer)
    buffer_min_items: Mapped[int] = column(
        "Observations that a formation is asked for, for the buffer.", Integer, server_default=ZERO
    )
    buffer_max_items: Mapped[int] = column(
        "Observations per formation, for the buffer.", Integer, server_default=text(str(BUFFER_MAX_ITEMS))
    )
    buffer_max_words: Mapped[int] = column(
        "Words of an observation of the buffer.", Integer, server_default=text(str(BUFFER_MAX_WORDS))
    )
    buffer_max: Mapped[int] = column(
        "Observations that the buffer keeps; the oldest go.", Integer, server_default=text(str(BUFFER_MAX))
    )
    language: Mapped[str] = constant("Text-search configuration of its observations.", server_default=text("'english'"))
    due_at: Mapped[datetime | None] = column("From when it should be consolidated; null: nothing to do.")
    fence: Mapped[int] = column("Number of the newest lease; work under an older one is refused.", server_default=ZERO)
    lease_until: Mapped[datetime | None] = column("Until when somebody works on it; database clock.")
    created_at: Mapped[datetime] = column("When the scope was first needed.", server_default=NOW)
    last_activity_at: Mapped[datetime | None] = column("When it last gained an observation.")
    consolidated_at: Mapped[datetime | None] = column("When its text last changed.")
    held_seq: Mapped[int] = column(
        "Not due before it gains an observation after this number (what an undo left).", Integer, server_default=ZERO
    )
    failures: Mapped[int] = column("Times in a row that the model gave no answer.", Integer, server_default=ZERO)
    errors: Mapped[int] = column("Answers in a row that could not be used.", Integer, server_default=ZERO)
    extraction_mode: Mapped[str] = constant(
        "batch: one model call with other scopes; isolated: one of its own.", server_default=text("'batch'")
    )
    sharing: Mapped[str | None] = constant(
        "Of a group: whether claims go into it and out of it by themselves (auto), after a person has looked "
        "(review) or never (off); null: as the agent has it."
    )
    rebuild: Mapped[bool] = column(
        "True: its text was taken away, since something in it was forgotten; it is due whatever the threshold.",
        server_default=FALSE,
    )
    suspects: Mapped[int] = column(
        "That many of the first pending ones hold one of which no model makes anything; 0: not known.",
        Integer,
        server_default=ZERO,
    )
    speakers: Mapped[list[str]] = erase(
        "Who speaks in its observations, by name, whoever spoke last first; the newest 50.", server_default=NO_TEXTS
    )
    propagate_at: Mapped[datetime | None] = column(
        "From when what its text has taken in should be judged for wider scopes; null: nothing to do."
    )
    propagated_at: Mapped[datetime | None] = column("When that was last done.")
    propagated_version: Mapped[int] = column(
        "Version of the text: all that it had taken in has been judged.", Integer, server_default=ZERO
    )
    propagation_failures: Mapped[int] = column(
        "Times in a row that this gave no answer or one that could not be used.", Integer, server_default=ZERO
    )
    propagation_errors: Mapped[int] = column(
        "Of these, answers that could not be used: each halves what the next one is asked about.",
        Integer,
        server_default=ZERO,
    )

    waits_below: Mapped[int] = column(
        "With fewer pending observations than this it wasn't due when that was last judged; far above any: it never was.",
        Integer,
        server_default=text(str(NEVER_JUDGED)),
    )
    import_id: Mapped[int | None] = column("The import that made it; null: it was there before, or wasn't imported.")

    consolidation: Mapped[str | None] = column_property(
        select(_texts.c.content)
        .where(_texts.c.agent_key == agent_key, _texts.c.scope_id == scope_id, _texts.c.version == version)
        .correlate_except(_texts)
        .scalar_subquery()
    )

    agent: Mapped[AgentRow] = related()
    observations: Mapped[list[ObservationRow]] = related(order_by="ObservationRow.seq")
    versions: Mapped[list[ConsolidationRow]] = related(order_by="ConsolidationRow.version")
    members: Mapped[list[MemberRow]] = related(order_by="MemberRow.joined_at")
    prompts: Mapped[list[PromptRow]] = related(order_by="(PromptRow.name, PromptRow.version)")
    runs: Mapped[list[RunRow]] = related(order_by="RunRow.run_id")


class MemberRow(Base):
    __tablename__ = "members"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "scope_id", "user_id", "joined_at"),
        key_of("scopes", "scope_id"),
        one_of("source", "host", "import", "inferred"),
        CheckConstraint("left_at >= joined_at", name="left_at"),
        Index(
            "members_scope_id_user_id_key",
            "agent_key",
            "scope_id",
            "user_id",
            unique=True,
            postgresql_where=text("left_at IS NULL"),
        ),
        Index("members_user_id_idx", "agent_key", "user_id", postgresql_where=text("left_at IS NULL")),
        Index("members_left_at_idx", "agent_key", "user_id", postgresql_where=text("left_at IS NOT NULL")),
        {"comment": "One row per time that a user belonged to a group; open ones let the user see its memory."},
    )

    agent_key: Mapped[int] = column("The agent.")
    scope_id: Mapped[int] = column("The group's scope.")
    user_id: Mapped[str] = host_id("The user.")
    joined_at: Mapped[datetime] = column("From when.", server_default=NOW)
    left_at: Mapped[datetime | None] = column("Until when; null: still a member.")
    source: Mapped[str] = constant("Who said so: host, import or inferred.", server_default=text("'host'"))
    import_id: Mapped[int | None] = column("The import that said so.")

    scope: Mapped[ScopeRow] = related()


class PromptRow(Base):
    __tablename__ = "prompts"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "scope_id", "name", "version"),
        key_of("scopes", "scope_id"),
        one_of("name", *get_args(PromptName)),
        one_of("mode", *get_args(PromptMode)),
        CheckConstraint("(mode = 'base') = (body IS NULL)", name="body"),
        CheckConstraint("version > 0", name="version"),
        {"comment": "One row per version of what a scope says to its models; the newest counts. Never changed."},
    )

    agent_key: Mapped[int] = column("The agent.")
    scope_id: Mapped[int] = column("The scope.")
    name: Mapped[str] = constant("What it is for: extraction or consolidation.")
    version: Mapped[int] = column("1, 2, 3 …; never used twice.", Integer)
    mode: Mapped[str] = constant(
        "guidance (beside the base prompt), override (in place of its instructions) or base (nothing of its own)."
    )
    body: Mapped[str | None] = erase("The words; null: the base prompt alone.")
    created_at: Mapped[datetime] = column("When.", server_default=NOW)
    import_id: Mapped[int | None] = column("The import that brought it.")

    scope: Mapped[ScopeRow] = related()


class ConsolidationRow(Base):
    __tablename__ = "consolidations"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "scope_id", "version"),
        key_of("scopes", "scope_id"),
        key_of("runs", "run_id"),
        CheckConstraint("version > base AND base >= 0", name="base"),
        CheckConstraint("from_seq BETWEEN 0 AND to_seq", name="from_seq"),
        CheckConstraint("content ~ '\\S'", name="content"),
        one_of("reason", "threshold", "asked", "undo", "forget", "quarantine", "retract", "merge", "import"),
        CheckConstraint("live = (live_until IS NULL)", name="live_until"),
        Index(
            "consolidations_from_seq_key",
            "agent_key",
            "scope_id",
            "from_seq",
            unique=True,
            postgresql_where=text("live AND to_seq > from_seq"),
        ),
        Index(
            "consolidations_held_idx",
            "agent_key",
            "scope_id",
            "version",
            postgresql_where=text("live AND contradictions @> '[{\"held\": true}]'::jsonb"),
        ),
        {"comment": "One row per version of a scope's text. Never changed, but for live."},
    )

    agent_key: Mapped[int] = column("The agent.")
    scope_id: Mapped[int] = column("The scope.")
    version: Mapped[int] = column("1, 2, 3 …; never used twice.", Integer)
    base: Mapped[int] = column("The version that it was written on top of; 0: none.", Integer)
    from_seq: Mapped[int] = column("It absorbed the observations after this number …", Integer)
    to_seq: Mapped[int] = column("… up to and including this one.", Integer)
    extra_seqs: Mapped[list[int]] = column("Earlier observations that it absorbed as well.", server_default=NO_NUMBERS)
    live: Mapped[bool] = column("False: undone or overtaken by a forgetting.", server_default=TRUE)
    content: Mapped[str] = erase("The text.")
    words: Mapped[int] = column("Its length.", Integer)
    model: Mapped[str | None] = constant("The model that wrote it.")
    prompt_version: Mapped[str | None] = constant("The prompt that it was asked with.")
    reason: Mapped[str] = constant("threshold, asked, undo, forget, quarantine, retract, merge or import.")
    run_id: Mapped[int | None] = column("The run that made it.")
    created_at: Mapped[datetime] = column("When it was written.", server_default=NOW)
    live_until: Mapped[datetime | None] = column("When it was undone or overtaken; null: it is live.")
    contradictions: Mapped[list[dict[str, Any]]] = mapped_column(
        JSONB,
        server_default=NO_ITEMS,
        comment="What contradicted what: newer, older (seq; null: the text before), was, now, held (waits for a person).",
        info={"text": "erase"},
    )
    repetitions: Mapped[list[dict[str, Any]]] = mapped_column(
        JSONB,
        server_default=NO_ITEMS,
        comment="What said nothing beyond what: newer, older (seq).",
        info={"text": "constant"},
    )

    scope: Mapped[ScopeRow] = related()
    run: Mapped[RunRow | None] = related()
