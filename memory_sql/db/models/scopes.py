"""Scopes, the members of groups, prompts, and the versions of the scopes' texts."""

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
            "kind || ' ' || left(owner, 2) = ANY "
            "('{individual u:,group g:,conversation s:,entity e:,collective c,agent a,guideline p}') AND length(owner) <> 2",
            name="owner",
        ),
        CheckConstraint("done_seq BETWEEN 0 AND last_seq", name="done_seq"),
        one_of("language", *LANGUAGES),
        one_of("extraction_mode", *get_args(ExtractionMode)),
        one_of("lanes", *get_args(Lanes)),
        one_of("sharing", *get_args(Sharing)),
        CheckConstraint("sharing IS NULL OR kind = 'group'", name="sharing_kind"),
        Index("scopes_owner_idx", text("NULLIF(substr(owner, 3), ''::text)"), "agent_key"),  # the views' owner_id
        Index("scopes_due_at_idx", "due_at", postgresql_where=text("due_at IS NOT NULL")),
        Index("scopes_propagate_at_idx", "propagate_at", postgresql_where=text("propagate_at IS NOT NULL")),
        Index("scopes_recheck_at_idx", "recheck_at", postgresql_where=text("recheck_at IS NOT NULL")),
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
        # Free space in each page lets the frequent updates of a scope's counters be HOT.
        {
            "comment": "One row per scope: its owner, its settings, the version of its text and the state of its work.",
            "postgresql_with": {"fillfactor": 70},
        },
    )

    agent_key: Mapped[int] = column("The agent.")
    scope_id: Mapped[int] = column(
        "Internal key of the scope; unique in the database. The API's s12 is 12 here.", Identity(always=False)
    )
    kind: Mapped[str] = constant(
        "individual (one user), group, collective (all users), conversation, entity, agent or guideline."
    )
    owner: Mapped[str] = host_id(
        "Its owner: u:<user>, g:<group>, s:<conversation>, e:<entity>, c (collective), a (agent) or p (guideline)."
    )
    name: Mapped[str] = host_id(
        "Empty for the owner's main scope, else the name of an additional scope.", server_default=text("''")
    )
    display_name: Mapped[str | None] = erase("What people call the owner; null: no name was given.")
    is_active: Mapped[bool] = column("False: the agent no longer reads or writes it.", server_default=TRUE)
    version: Mapped[int] = column(
        "Version of the text, which is in consolidations; without a row of this version there is no text. Only rises.",
        Integer,
        server_default=ZERO,
    )
    epoch: Mapped[int] = column(
        "Rises when something is deleted; work begun under an earlier epoch is refused.", Integer, server_default=ZERO
    )
    last_seq: Mapped[int] = column("Number of the newest observation.", Integer, server_default=ZERO)
    done_seq: Mapped[int] = column(
        "The watermark: number of the last observation that a consolidation has passed.", Integer, server_default=ZERO
    )
    extraction_model: Mapped[str | None] = constant(
        "Model for its extraction, which then is a call of its own; null: the default."
    )
    consolidation_model: Mapped[str | None] = constant("Model that writes its text; null: the default.")
    consolidate: Mapped[bool] = column("False: its observations are kept but never consolidated.", server_default=TRUE)
    consolidation_threshold: Mapped[int | None] = column(
        "Number of pending observations that makes it due; null: the default.", Integer
    )
    consolidation_characters: Mapped[int | None] = column(
        "Characters of pending observations that make it due as well; null: only their number does.", Integer
    )
    consolidation_max_words: Mapped[int | None] = column("Longest text, in words; null: the default.", Integer)
    lanes: Mapped[str] = constant(
        "Where new observations go: absorb (into its text), buffer (the newest are kept, never in its text) or both.",
        server_default=text("'absorb'"),
    )
    observation_min_items: Mapped[int] = column(
        "Fewest observations that a formation is asked for.", Integer, server_default=ZERO
    )
    observation_max_items: Mapped[int | None] = column(
        "Most observations per formation; null: the default of its kind.", Integer
    )
    observation_max_words: Mapped[int | None] = column("Longest observation, in words; null: the default.", Integer)
    buffer_min_items: Mapped[int] = column(
        "Fewest observations that a formation is asked for, for the buffer.", Integer, server_default=ZERO
    )
    buffer_max_items: Mapped[int] = column(
        "Most observations per formation, for the buffer.", Integer, server_default=text(str(BUFFER_MAX_ITEMS))
    )
    buffer_max_words: Mapped[int] = column(
        "Longest observation of the buffer, in words.", Integer, server_default=text(str(BUFFER_MAX_WORDS))
    )
    buffer_max: Mapped[int] = column(
        "Most observations that the buffer keeps; older ones are evicted.",
        Integer,
        server_default=text(str(BUFFER_MAX)),
    )
    language: Mapped[str] = constant("Text-search configuration of its observations.", server_default=text("'english'"))
    former_languages: Mapped[list[str]] = constant(
        "Text-search configurations that observations of it may have from before.", server_default=NO_TEXTS
    )
    due_at: Mapped[datetime | None] = column("When a consolidation is due; null: nothing to do.")
    fence: Mapped[int] = column("Number of the newest lease; work under an older one is refused.", server_default=ZERO)
    lease_until: Mapped[datetime | None] = column(
        "When the worker's lease ends, by the database's clock; null: no lease."
    )
    created_at: Mapped[datetime] = column("When the scope was first needed.", server_default=NOW)
    last_activity_at: Mapped[datetime | None] = column("When it last gained an observation.")
    consolidated_at: Mapped[datetime | None] = column("When its text last changed.")
    held_seq: Mapped[int] = column(
        "Not made due until it gains an observation after this number: after an undo, or where a text told not all of it.",
        Integer,
        server_default=ZERO,
    )
    failures: Mapped[int] = column(
        "Consecutive attempts in which the model gave no answer.", Integer, server_default=ZERO
    )
    errors: Mapped[int] = column("Consecutive answers that could not be used.", Integer, server_default=ZERO)
    extraction_mode: Mapped[str] = constant(
        "batch: extracted in one model call with other scopes; isolated: in a call of its own.",
        server_default=text("'batch'"),
    )
    sharing: Mapped[str | None] = constant(
        "Of a group: whether claims go into it and out of it automatically (auto), after a person's review "
        "(review) or never (off); null: the agent's setting."
    )
    rebuild: Mapped[bool] = column(
        "True: its text was removed because something in it was forgotten; it is due whatever the threshold.",
        server_default=FALSE,
    )
    suspects: Mapped[int] = column(
        "One of this many oldest pending observations is one that no model can process; 0: not known.",
        Integer,
        server_default=ZERO,
    )
    speakers: Mapped[list[str]] = erase(
        "Names of those who speak in its observations, latest speaker first; at most 50.", server_default=NO_TEXTS
    )
    propagate_at: Mapped[datetime | None] = column(
        "When the observations that its text absorbed are due to be judged for wider scopes; null: nothing to do."
    )
    propagated_at: Mapped[datetime | None] = column("When they were last judged; null: never.")
    propagated_version: Mapped[int] = column(
        "Version of the text whose absorbed observations have all been judged; 0: none.", Integer, server_default=ZERO
    )
    propagation_failures: Mapped[int] = column(
        "Consecutive propagations with no answer or an unusable one.", Integer, server_default=ZERO
    )
    propagation_errors: Mapped[int] = column(
        "How many of these answers were unusable; each one halves the number of claims that the next call judges.",
        Integer,
        server_default=ZERO,
    )

    recheck_at: Mapped[datetime | None] = column(
        "When what its text has absorbed is due to be rechecked; null: nothing to do."
    )
    rechecked_at: Mapped[datetime | None] = column("When it was last rechecked; null: never.")
    rechecked_seq: Mapped[int] = column(
        "Number of the last observation that was compared with those nearest to it; 0: none.",
        Integer,
        server_default=ZERO,
    )
    waits_below: Mapped[int] = column(
        "When last checked, it was not due with fewer pending observations than this; 2147483647: never checked.",
        Integer,
        server_default=text(str(NEVER_JUDGED)),
    )
    import_id: Mapped[int | None] = column("The import that created it; null: it existed before, or wasn't imported.")

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
        CheckConstraint("NOT kept OR left_at IS NOT NULL", name="kept"),
        Index(
            "members_scope_id_user_id_key",
            "agent_key",
            "scope_id",
            "user_id",
            unique=True,
            postgresql_where=text("left_at IS NULL"),
        ),
        Index("members_user_id_idx", "agent_key", "user_id", postgresql_where=text("left_at IS NULL")),
        {
            "comment": "One row per period in which a user belonged to a group; an open one lets the user see its memory."
        },
    )

    agent_key: Mapped[int] = column("The agent.")
    scope_id: Mapped[int] = column("The group's scope.")
    user_id: Mapped[str] = host_id("The user.")
    joined_at: Mapped[datetime] = column("When the user joined.", server_default=NOW)
    left_at: Mapped[datetime | None] = column("When the user left; null: still a member.")
    kept: Mapped[bool] = column(
        "What the user had contributed when they left stays in the group without them.", server_default=FALSE
    )
    source: Mapped[str] = constant(
        "Where the membership comes from: host, import or inferred.", server_default=text("'host'")
    )
    import_id: Mapped[int | None] = column("The import that brought it; null: none.")

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
        {
            "comment": "One row per version of a scope's own instructions to its models; the newest applies. Never changed."
        },
    )

    agent_key: Mapped[int] = column("The agent.")
    scope_id: Mapped[int] = column("The scope.")
    name: Mapped[str] = constant("What it is for: extraction or consolidation.")
    version: Mapped[int] = column("1, 2, 3 …; never used twice.", Integer)
    mode: Mapped[str] = constant(
        "guidance (added to the base prompt), override (replaces its instructions) or base (the base prompt alone)."
    )
    body: Mapped[str | None] = erase("The instructions; null: the base prompt alone.")
    created_at: Mapped[datetime] = column("When it was saved.", server_default=NOW)
    import_id: Mapped[int | None] = column("The import that brought it; null: none.")

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
        one_of("reason", "threshold", "asked", "undo", "forget", "quarantine", "retract", "merge", "import", "recheck"),
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
            postgresql_where=text(
                "live AND (contradictions @> '[{\"held\": true}]'::jsonb OR contradictions @> '[{\"asks\": true}]'::jsonb)"
            ),
        ),
        Index(
            "consolidations_recheck_idx",
            "agent_key",
            "scope_id",
            "version",
            postgresql_where=text("live AND reason = 'recheck'"),
        ),
        {"comment": "One row per version of a scope's text. Never changed, except for live."},
    )

    agent_key: Mapped[int] = column("The agent.")
    scope_id: Mapped[int] = column("The scope.")
    version: Mapped[int] = column("1, 2, 3 …; never used twice.", Integer)
    base: Mapped[int] = column("The version that it was rewritten from; 0: none.", Integer)
    from_seq: Mapped[int] = column("It covers the observations after this number …", Integer)
    to_seq: Mapped[int] = column("… up to and including this one.", Integer)
    extra_seqs: Mapped[list[int]] = column("Earlier observations that it absorbed as well.", server_default=NO_NUMBERS)
    live: Mapped[bool] = column("False: undone, or replaced after a forgetting.", server_default=TRUE)
    content: Mapped[str] = erase("The text.")
    words: Mapped[int] = column("Length of the text, in words.", Integer)
    model: Mapped[str | None] = constant("The model that wrote it; null: none.")
    prompt_version: Mapped[str | None] = constant("Version of the prompt; null: no model wrote it.")
    reason: Mapped[str] = constant(
        "Why it was written: threshold, asked, undo, forget, quarantine, retract, merge, import or recheck (the text before)."
    )
    run_id: Mapped[int | None] = column("The run that made it; null: none.")
    created_at: Mapped[datetime] = column("When it was written.", server_default=NOW)
    live_until: Mapped[datetime | None] = column("When it stopped being live; null: it is live.")
    contradictions: Mapped[list[dict[str, Any]]] = mapped_column(
        JSONB,
        server_default=NO_ITEMS,
        comment="Contradictions: newer, older (seq; null: the text before), was, now, held (waits for a person).",
        info={"text": "erase"},
    )
    repetitions: Mapped[list[dict[str, Any]]] = mapped_column(
        JSONB,
        server_default=NO_ITEMS,
        comment="Observations that only repeated another: newer, older (seq).",
        info={"text": "constant"},
    )
    passed_seqs: Mapped[list[int]] = column(
        "Observations that it was shown and left waiting; some of their words may be in it.", server_default=NO_NUMBERS
    )

    scope: Mapped[ScopeRow] = related()
    run: Mapped[RunRow | None] = related()
