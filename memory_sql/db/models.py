"""The tables of schema `memory`. Their comments are what analysts read; the migrations are their history.

The agent's key leads every primary and foreign key: a row can't refer across agents. Every text column says what
becomes of it when a person is forgotten (`info["text"]`): `erase` (may hold remembered text), `host_id` (the host's
own identifier) or `constant` (a word of ours).
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    REAL,
    BigInteger,
    CheckConstraint,
    Computed,
    Date,
    DateTime,
    Double,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import DATEMULTIRANGE, JSONB, TSVECTOR
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedColumn, mapped_column

from memory_sql.privacy import SENSITIVITIES

SCHEMA = "memory"

# Configurations that every supported Postgres ships. Text, not regconfig: a regconfig column would block pg_upgrade.
LANGUAGES = (
    "arabic",
    "armenian",
    "basque",
    "catalan",
    "danish",
    "dutch",
    "english",
    "finnish",
    "french",
    "german",
    "greek",
    "hindi",
    "hungarian",
    "indonesian",
    "irish",
    "italian",
    "lithuanian",
    "nepali",
    "norwegian",
    "portuguese",
    "romanian",
    "russian",
    "serbian",
    "simple",
    "spanish",
    "swedish",
    "tamil",
    "turkish",
    "yiddish",
)
SEARCHED_CHARACTERS = 100_000  # of one text; more could exceed what a tsvector holds (1 MB)


class Base(DeclarativeBase):
    metadata = MetaData(
        schema=SCHEMA,
        naming_convention={
            "pk": "%(table_name)s_pkey",
            "uq": "%(table_name)s_%(column_0_N_name)s_key",
            "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
            "ck": "%(table_name)s_%(constraint_name)s_check",
            "ix": "%(table_name)s_%(column_0_N_name)s_idx",
        },
    )
    type_annotation_map = {  # noqa: RUF012 (declarative reads it from the class)
        int: BigInteger,
        str: Text,
        float: REAL,
        bytes: LargeBinary,
        datetime: DateTime(timezone=True),
        list[str]: ARRAY(Text),
        list[int]: ARRAY(Integer),
        dict[str, Any]: JSONB,
    }


def column(comment: str, *arguments: Any, **options: Any) -> MappedColumn[Any]:
    return mapped_column(*arguments, comment=comment, **options)


def constant(comment: str, **options: Any) -> MappedColumn[Any]:
    return mapped_column(comment=comment, info={"text": "constant"}, **options)


def host_id(comment: str, **options: Any) -> MappedColumn[Any]:
    return mapped_column(comment=comment, info={"text": "host_id"}, **options)


def erase(comment: str, **options: Any) -> MappedColumn[Any]:
    return mapped_column(comment=comment, info={"text": "erase"}, **options)


def one_of(name: str, *values: str) -> CheckConstraint:
    return CheckConstraint(f"{name} IN ({', '.join(repr(value) for value in values)})", name=name)


def key_of(table: str, *columns: str) -> ForeignKeyConstraint:
    """A foreign key to `table` by columns of the same names."""
    return ForeignKeyConstraint(
        ["agent_key", *columns], [f"{SCHEMA}.{table}.{name}" for name in ("agent_key", *columns)]
    )


def search_vector(comment: str, **options: Any) -> MappedColumn[Any]:
    """The words of `content` in the row's own `language`, and those of `search_extra` in none."""
    generated = Computed(_search_vector(), persisted=True)
    return mapped_column(TSVECTOR, generated, deferred=True, comment=comment, info={"text": "erase"}, **options)


def _search_vector() -> str:
    by_language = " ".join(
        f"WHEN '{name}' THEN to_tsvector('pg_catalog.{name}'::regconfig, left(content, {SEARCHED_CHARACTERS}))"
        for name in LANGUAGES
    )
    extra = f"to_tsvector('pg_catalog.simple'::regconfig, left(search_extra, {SEARCHED_CHARACTERS}))"
    return f"(CASE language {by_language} END) || {extra}"


SEARCH_EXTRA = "What the language's parser would miss: identifiers, n-grams, folded forms."
NOW = text("now()")
ZERO = text("0")
NO_TEXTS = text("'{}'::text[]")
NO_NUMBERS = text("'{}'::integer[]")
NO_PAIRS = text("'{}'::jsonb")
NO_ITEMS = text("'[]'::jsonb")
TRUE = text("true")
FALSE = text("false")
READABLE = "< '9999-01-01 00:00:00+00'::timestamptz"  # later ones can be stored, but not read back by every driver


class AgentRow(Base):
    __tablename__ = "agents"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key"),
        UniqueConstraint("agent_id"),
        CheckConstraint("length(agent_id) BETWEEN 1 AND 255", name="agent_id"),
        {"comment": "One row per agent: something that converses and remembers."},
    )

    agent_key: Mapped[int] = column("Our own key of the agent; leads every other key.", Identity(always=False))
    agent_id: Mapped[str] = host_id("The host's id of the agent.")
    created_at: Mapped[datetime] = column("When the agent was first seen.", server_default=NOW)
    settings: Mapped[dict[str, Any]] = constant(
        "Settings that differ from the service's, by name.", server_default=NO_PAIRS
    )


class ScopeRow(Base):
    __tablename__ = "scopes"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "scope_id"),
        key_of("agents"),
        UniqueConstraint("agent_key", "owner", "name"),
        one_of("kind", "individual", "group", "collective", "session", "entity", "agent", "guideline"),
        CheckConstraint(
            "CASE kind WHEN 'individual' THEN owner LIKE 'u:_%' WHEN 'group' THEN owner LIKE 'g:_%' "
            "WHEN 'session' THEN owner LIKE 's:_%' WHEN 'entity' THEN owner LIKE 'e:_%' "
            "WHEN 'collective' THEN owner = 'c' WHEN 'agent' THEN owner = 'a' ELSE owner = 'p' END",
            name="owner",
        ),
        CheckConstraint("done_seq BETWEEN 0 AND last_seq", name="done_seq"),
        CheckConstraint("version > 0 OR consolidation IS NULL", name="consolidation"),
        CheckConstraint("dead_run_id IS NULL OR due_at IS NULL", name="dead_run_id"),
        one_of("language", *LANGUAGES),
        one_of("extraction_mode", "batch", "isolated"),
        Index("scopes_due_at_idx", "due_at", postgresql_where=text("due_at IS NOT NULL")),
        Index("scopes_propagate_at_idx", "propagate_at", postgresql_where=text("propagate_at IS NOT NULL")),
        # Room in the page keeps the frequent updates of a scope's counters in place (HOT).
        {
            "comment": "One row per scope: whose memory it is, its consolidated text and how far that has read.",
            "postgresql_with": {"fillfactor": 70},
        },
    )

    agent_key: Mapped[int] = column("The agent.")
    scope_id: Mapped[int] = column("Our own key of the scope; unique in the database.", Identity(always=False))
    kind: Mapped[str] = constant("individual (one user), group, collective (all users) or a special kind.")
    owner: Mapped[str] = host_id("Whose it is: c, u:<user>, g:<group>, s:<session>, e:<entity>, a or p.")
    name: Mapped[str] = host_id(
        "Empty for the owner's main scope, else the name of a scope beside it.", server_default=text("''")
    )
    display_name: Mapped[str | None] = erase("How a person would call the owner.")
    is_active: Mapped[bool] = column("False: neither read nor written by the agent any more.", server_default=TRUE)
    consolidation: Mapped[str | None] = erase("The consolidated text, as of version; null before the first.")
    version: Mapped[int] = column("Version of the text; only rises.", Integer, server_default=ZERO)
    epoch: Mapped[int] = column(
        "Rises when something is taken out; fences off work in flight.", Integer, server_default=ZERO
    )
    last_seq: Mapped[int] = column("Number of the newest observation.", Integer, server_default=ZERO)
    done_seq: Mapped[int] = column(
        "Number of the last observation that a consolidation has passed.", Integer, server_default=ZERO
    )
    extraction_prompt: Mapped[str | None] = erase("What to extract for this scope, beside the base prompt.")
    consolidation_prompt: Mapped[str | None] = erase("How to consolidate this scope, beside the base prompt.")
    consolidate: Mapped[bool] = column("False: observations are kept but never consolidated.", server_default=TRUE)
    consolidation_threshold: Mapped[int | None] = column(
        "Pending observations that make it due; null: the default.", Integer
    )
    consolidation_max_words: Mapped[int | None] = column("Words of its text; null: the default.", Integer)
    observation_max_items: Mapped[int | None] = column("Observations per formation; null: the default.", Integer)
    observation_max_words: Mapped[int | None] = column("Words of an observation; null: the default.", Integer)
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
    dead_run_id: Mapped[int | None] = column("Not used: single observations are given up, never a scope.")
    extraction_mode: Mapped[str] = constant(
        "batch: one model call with other scopes; isolated: one of its own.", server_default=text("'batch'")
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


class SessionRow(Base):
    __tablename__ = "sessions"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "session_id"),
        key_of("agents"),
        CheckConstraint("formed_number BETWEEN 0 AND last_number", name="formed_number"),
        CheckConstraint("(due_at IS NULL) = (due_reason IS NULL)", name="due"),
        CheckConstraint("dead_run_id IS NULL OR due_at IS NULL", name="dead_run_id"),
        one_of("due_reason", "signal", "messages", "tokens", "age", "cold", "retry"),
        Index("sessions_due_at_idx", "due_at", postgresql_where=text("due_at IS NOT NULL")),
        # A pending list would make every search for a user's sessions read it as well.
        Index(
            "sessions_participants_idx", "participants", postgresql_using="gin", postgresql_with={"fastupdate": "off"}
        ),
        Index("sessions_text_since_idx", "agent_key", "text_since", postgresql_where=text("text_since IS NOT NULL")),
        {
            "comment": "One row per conversation of an agent, with how far observations have been formed from it.",
            "postgresql_with": {"fillfactor": 70},
        },
    )

    agent_key: Mapped[int] = column("The agent.")
    session_id: Mapped[str] = host_id("The host's id of the conversation.")
    user_id: Mapped[str] = host_id("The user whom the host named with the first message.")
    participants: Mapped[list[str]] = host_id("All users who have written in it.", server_default=NO_TEXTS)
    group_ids: Mapped[list[str]] = host_id("The groups in which it takes place.", server_default=NO_TEXTS)
    last_number: Mapped[int] = column("Number of the newest message.", server_default=ZERO)
    formed_number: Mapped[int] = column("Number of the last message that a formation has read.", server_default=ZERO)
    unformed_messages: Mapped[int] = column(
        "Messages after that, without the skipped ones.", Integer, server_default=ZERO
    )
    unformed_tokens: Mapped[float] = column("Their weighted tokens.", server_default=ZERO)
    epoch: Mapped[int] = column(
        "Rises when a message is forgotten; fences off work in flight.", Integer, server_default=ZERO
    )
    due_at: Mapped[datetime | None] = column("From when observations should be formed; null: nothing to do.")
    due_reason: Mapped[str | None] = constant("signal, messages, tokens, age, cold or retry.")
    fence: Mapped[int] = column("Number of the newest lease; work under an older one is refused.", server_default=ZERO)
    lease_until: Mapped[datetime | None] = column("Until when somebody works on it; database clock.")
    created_at: Mapped[datetime] = column("When the first message arrived.", server_default=NOW)
    last_activity_at: Mapped[datetime] = column("When the newest message arrived.", server_default=NOW)
    excluded: Mapped[bool] = column("True: what is said in it is not to be remembered.", server_default=FALSE)
    failures: Mapped[int] = column("Times in a row that the model gave no answer.", Integer, server_default=ZERO)
    errors: Mapped[int] = column("Answers in a row that could not be used.", Integer, server_default=ZERO)
    dead_run_id: Mapped[int | None] = column("The run with which it was given up; null: it goes on.")
    time_zone: Mapped[str | None] = constant("Where its calendar days begin (IANA name); null: the default.")
    unformed_since: Mapped[datetime | None] = column("When the oldest message arrived that no formation has read.")
    text_since: Mapped[datetime | None] = column(
        "When the oldest message arrived that still has its text, or earlier; null: none has."
    )


class MessageRow(Base):
    __tablename__ = "messages"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "session_id", "number"),
        key_of("sessions", "session_id"),
        UniqueConstraint("agent_key", "session_id", "message_id"),
        CheckConstraint("number > 0", name="number"),
        CheckConstraint(f"said_at {READABLE}", name="said_at"),
        CheckConstraint("owner LIKE 'u:_%'", name="owner"),
        Index(
            "messages_search_idx",
            text("memory.search_tokens(hashtextextended(owner, agent_key), search)"),
            postgresql_using="gin",
            postgresql_with={"fastupdate": "off"},
            postgresql_where=text("content IS NOT NULL"),
        ),
        one_of("language", *LANGUAGES),
        {"comment": "One row per message. When its text has gone, the row stays, so that it isn't taken twice."},
    )

    agent_key: Mapped[int] = column("The agent.")
    session_id: Mapped[str] = host_id("The conversation.")
    number: Mapped[int] = column("1, 2, 3 … in the order of arrival.")
    message_id: Mapped[str] = host_id("The host's id of the message, or one of ours.")
    role: Mapped[str] = constant("user, assistant, agent, system, developer, tool or function.")
    user_id: Mapped[str | None] = host_id("The user who wrote it; null for the agent and its tools.")
    speaker: Mapped[str | None] = erase("The speaker's name, as the host gave it.")
    content: Mapped[str | None] = erase("What was said; null once it has been forgotten or its retention has ended.")
    cleaned: Mapped[list[str]] = constant(
        "What had to be changed to store it: nul, surrogate, tag_characters.", server_default=NO_TEXTS
    )
    weight: Mapped[float] = column("Weighted tokens: characters / 4.5 × 1 for users, 0.5 for tools, 0.2 for agents.")
    eligible: Mapped[bool] = column("False: formation skips it (system messages).", server_default=TRUE)
    signal: Mapped[str | None] = constant("The signal that it gave, if any.")
    said_at: Mapped[datetime] = column("When it was said.")
    created_at: Mapped[datetime] = column("When it was stored.", server_default=NOW)
    owner: Mapped[str] = host_id("Whose conversation it stands in: u:<user>, by the session's user.")
    language: Mapped[str] = constant("Text-search configuration.", server_default=text("'english'"))
    search_extra: Mapped[str] = erase(SEARCH_EXTRA, server_default=text("''"))
    search: Mapped[Any] = search_vector("What full-text search sees; null once the text has gone.", nullable=True)


class RunRow(Base):
    __tablename__ = "runs"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "run_id"),
        key_of("agents"),
        key_of("sessions", "session_id"),
        key_of("scopes", "scope_id"),
        one_of("kind", "formation", "consolidation", "propagation"),
        one_of("state", "running", "answered", "succeeded", "empty", "failed", "dead", "discarded"),
        CheckConstraint(
            "CASE kind WHEN 'formation' THEN session_id IS NOT NULL AND scope_id IS NULL "
            "ELSE scope_id IS NOT NULL AND session_id IS NULL END",
            name="target",
        ),
        CheckConstraint("(state IN ('failed', 'dead', 'discarded')) = (error_code IS NOT NULL)", name="error_code"),
        CheckConstraint("(state IN ('running', 'answered')) = (finished_at IS NULL)", name="finished_at"),
        Index(
            "runs_session_id_idx",
            "agent_key",
            "session_id",
            "to_number",
            postgresql_where=text("session_id IS NOT NULL"),
        ),
        Index("runs_scope_id_idx", "agent_key", "scope_id", "to_seq", postgresql_where=text("scope_id IS NOT NULL")),
        Index("runs_dead_idx", "agent_key", "run_id", postgresql_where=text("state = 'dead'")),
        {"comment": "One row per piece of model work: what it read, what it cost, what came of it."},
    )

    agent_key: Mapped[int] = column("The agent.")
    run_id: Mapped[int] = column("Our own key of the run; unique in the database.", Identity(always=False))
    kind: Mapped[str] = constant("formation (of a session), consolidation or propagation (of a scope).")
    session_id: Mapped[str | None] = host_id("The session, for a formation.")
    from_number: Mapped[int | None] = column("A formation read the messages after this number …")
    to_number: Mapped[int | None] = column("… up to and including this one.")
    scope_id: Mapped[int | None] = column("The scope, for the others.")
    from_seq: Mapped[int | None] = column("A consolidation read the observations after this number …", Integer)
    to_seq: Mapped[int | None] = column("… up to and including this one.", Integer)
    fence: Mapped[int] = column("The lease under which it ran.")
    state: Mapped[str] = constant(
        "running, answered, succeeded, empty, failed, dead (given up, waits for a person) or discarded."
    )
    answer: Mapped[str | None] = erase("The model's raw answer, from when it came until it was applied.")
    model: Mapped[str | None] = constant("The model that answered.")
    prompt_version: Mapped[str | None] = constant("The prompt that it was asked with.")
    input_tokens: Mapped[int | None] = column("As the provider counts them.", Integer)
    output_tokens: Mapped[int | None] = column("As the provider counts them.", Integer)
    latency_seconds: Mapped[float | None] = column("How long the model took.")
    observations: Mapped[int | None] = column("Observations that it stored or absorbed.", Integer)
    duplicates: Mapped[int | None] = column("Observations that were known already and gained evidence.", Integer)
    refused: Mapped[dict[str, Any]] = constant("What the model may not do, counted by reason.", server_default=NO_PAIRS)
    error_code: Mapped[str | None] = constant("Why it failed, in one word.")
    error: Mapped[str | None] = constant("Why it failed, in a sentence without remembered text.")
    started_at: Mapped[datetime] = column("When it was begun.", server_default=NOW)
    finished_at: Mapped[datetime | None] = column("When it ended; null while it runs.")
    seen: Mapped[dict[str, Any]] = host_id(
        "What a formation's prompt showed: the epochs of its session and scopes, the scopes by their names in it.",
        server_default=NO_PAIRS,
    )
    calls: Mapped[int] = column("Calls of the model that it took.", Integer, server_default=ZERO)
    forgotten: Mapped[int] = column("Of its observations: forgotten since.", Integer, server_default=ZERO)


class ObservationRow(Base):
    __tablename__ = "observations"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "scope_id", "seq"),
        key_of("scopes", "scope_id"),
        key_of("runs", "run_id"),
        CheckConstraint("seq > 0", name="seq"),
        CheckConstraint("content ~ '\\S'", name="content"),
        CheckConstraint(f"observed_at {READABLE}", name="observed_at"),
        CheckConstraint("confidence BETWEEN 0 AND 1", name="confidence"),
        CheckConstraint("importance BETWEEN 0 AND 1", name="importance"),
        one_of("lane", "absorb", "buffer"),
        one_of("source_kind", "formation", "observe", "propagation", "import"),
        one_of("sensitivity", *SENSITIVITIES),
        one_of("language", *LANGUAGES),
        Index(
            "observations_fact_key_idx",
            "agent_key",
            "scope_id",
            "fact_key",
            postgresql_where=text("fact_key IS NOT NULL"),
        ),
        # A pending list would be read by every search, and emptied by whoever saves at the wrong moment.
        Index(
            "observations_search_idx",
            text("memory.search_tokens(scope_id, search)"),
            postgresql_using="gin",
            postgresql_with={"fastupdate": "off"},
        ),
        {"comment": "One row per observation, one remembered thing. Its text never changes."},
    )

    agent_key: Mapped[int] = column("The agent.")
    scope_id: Mapped[int] = column("The scope.")
    seq: Mapped[int] = column("1, 2, 3 … in the order in which the scope gained them.", Integer)
    content: Mapped[str] = erase("What is remembered.")
    observed_at: Mapped[datetime] = column("When it was said.")
    created_at: Mapped[datetime] = column("When we came to know it.", server_default=NOW)
    source_kind: Mapped[str] = constant("formation, observe, propagation or import.")
    session_id: Mapped[str | None] = host_id("The conversation that it comes from.")
    speaker: Mapped[str | None] = erase("Who said it, by name.")
    message_ids: Mapped[list[str]] = host_id("The messages that it comes from.", server_default=NO_TEXTS)
    related_users: Mapped[list[str]] = host_id("The users who said it.", server_default=NO_TEXTS)
    run_id: Mapped[int | None] = column("The run that made it.")
    legacy_ref: Mapped[str | None] = host_id("The document that it was imported from.")
    lane: Mapped[str] = constant(
        "absorb (will be consolidated) or buffer (newest are kept, never consolidated).",
        server_default=text("'absorb'"),
    )
    category: Mapped[str | None] = constant("fact, preference, decision …; null: not classified.")
    kind: Mapped[str | None] = constant("episode, note, fact or procedure; null: not classified.")
    confidence: Mapped[float | None] = column("0 to 1, when it was made; null: not known.")
    importance: Mapped[float | None] = column("0 to 1, when it was made; null: not known.")
    sensitivity: Mapped[str] = constant("public, private or sensitive.", server_default=text("'private'"))
    no_propagate: Mapped[bool] = column("True: never leaves its scope.", server_default=FALSE)
    confidential: Mapped[bool] = column("True: said in confidence; never leaves its scope.", server_default=FALSE)
    tags: Mapped[list[str]] = erase("The host's tags.", server_default=NO_TEXTS)
    metadata_: Mapped[dict[str, Any]] = mapped_column(
        "metadata", JSONB, server_default=NO_PAIRS, comment="The host's own data about it.", info={"text": "erase"}
    )
    content_hash: Mapped[bytes | None] = column("SHA-256 of the text's normal form; null: never a duplicate.")
    hash_version: Mapped[int] = column("Which normal form.", SmallInteger)
    language: Mapped[str] = constant("Text-search configuration.", server_default=text("'english'"))
    search_extra: Mapped[str] = erase(SEARCH_EXTRA, server_default=text("''"))
    search: Mapped[Any] = search_vector("What full-text search sees.")
    dates: Mapped[Any] = mapped_column(
        DATEMULTIRANGE, nullable=True, comment="The calendar days that its text speaks of; null: none."
    )
    fact_key: Mapped[str | None] = erase("The host's name of the fact that it states; a newer one replaces it.")
    categories: Mapped[list[str] | None] = constant(
        "contact, credential, financial …; empty: nothing personal; null: never classified, so personal."
    )


class ObservationStateRow(Base):
    __tablename__ = "observation_states"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "scope_id", "seq"),
        key_of("observations", "scope_id", "seq"),
        one_of("status", "active", "superseded", "archived", "quarantined", "evicted"),
        one_of("verification", "unverified", "confirmed", "disputed"),
        CheckConstraint("superseded_by IS NULL OR status = 'superseded'", name="superseded_by"),
        Index("observation_states_repend_idx", "agent_key", "scope_id", "seq", postgresql_where=text("repend")),
        Index(
            "observation_states_superseded_by_idx",
            "agent_key",
            "scope_id",
            "superseded_by",
            postgresql_where=text("superseded_by IS NOT NULL"),
        ),
        Index(
            "observation_states_status_idx",
            "agent_key",
            "scope_id",
            "seq",
            postgresql_where=text("status = 'quarantined'"),
        ),
        Index(
            "observation_states_verification_idx",
            "agent_key",
            "scope_id",
            "seq",
            postgresql_where=text("verification = 'disputed'"),
        ),
        {
            "comment": "One row per observation whose state differs from the defaults: what may change about it.",
            "postgresql_with": {"fillfactor": 70},
        },
    )

    agent_key: Mapped[int] = column("The agent.")
    scope_id: Mapped[int] = column("The scope.")
    seq: Mapped[int] = column("The observation.", Integer)
    status: Mapped[str] = constant(
        "active, superseded, archived, quarantined or evicted.", server_default=text("'active'")
    )
    status_at: Mapped[datetime] = column("Since when.", server_default=NOW)
    repend: Mapped[bool] = column("True: waits for a consolidation although one has passed it.", server_default=FALSE)
    superseded_by: Mapped[int | None] = column("The observation of the same scope that took its place.", Integer)
    verification: Mapped[str] = constant("unverified, confirmed or disputed.", server_default=text("'unverified'"))


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
        comment="What contradicted what: newer, older (seq; null: the text before), was, now.",
        info={"text": "erase"},
    )


class EvidenceRow(Base):
    __tablename__ = "evidence"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "evidence_id"),
        key_of("observations", "scope_id", "seq"),
        key_of("messages", "session_id", "number"),
        key_of("runs", "run_id"),
        CheckConstraint("(session_id IS NULL) = (number IS NULL)", name="number"),
        Index("evidence_seq_idx", "agent_key", "scope_id", "seq"),
        Index("evidence_number_idx", "agent_key", "session_id", "number", postgresql_where=text("number IS NOT NULL")),
        Index("evidence_user_id_idx", "agent_key", "user_id", postgresql_where=text("user_id IS NOT NULL")),
        {"comment": "One row per message or person that stands behind an observation; it lives while it has some."},
    )

    agent_key: Mapped[int] = column("The agent.")
    evidence_id: Mapped[int] = column("Our own key.", Identity(always=False))
    scope_id: Mapped[int] = column("The observation's scope.")
    seq: Mapped[int] = column("The observation.", Integer)
    session_id: Mapped[str | None] = host_id("The message's conversation; null for what the host stated itself.")
    number: Mapped[int | None] = column("The message.")
    user_id: Mapped[str | None] = host_id("The user who said it.")
    run_id: Mapped[int | None] = column("The run that found it.")
    created_at: Mapped[datetime] = column("When it was found.", server_default=NOW)


class LineageRow(Base):
    __tablename__ = "lineage"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "scope_id", "seq", "source_scope_id", "source_seq"),
        key_of("observations", "scope_id", "seq"),
        ForeignKeyConstraint(
            ["agent_key", "source_scope_id", "source_seq"],
            [f"{SCHEMA}.observations.{name}" for name in ("agent_key", "scope_id", "seq")],
        ),
        key_of("runs", "run_id"),
        CheckConstraint("scope_id <> source_scope_id", name="source_scope_id"),
        Index("lineage_source_seq_idx", "agent_key", "source_scope_id", "source_seq"),
        {"comment": "One row per observation that another one, of a wider scope, was made of."},
    )

    agent_key: Mapped[int] = column("The agent.")
    scope_id: Mapped[int] = column("The scope of the observation that was made.")
    seq: Mapped[int] = column("The observation that was made.", Integer)
    source_scope_id: Mapped[int] = column("The scope of the observation that it was made of.")
    source_seq: Mapped[int] = column("The observation that it was made of.", Integer)
    run_id: Mapped[int | None] = column("The run that made it.")
    created_at: Mapped[datetime] = column("When it was made.", server_default=NOW)
    whole: Mapped[bool] = column(
        "True: it was made of this one alone, and stays as long as one such is left; false: merged of several.",
        server_default=TRUE,
    )


class JudgedRow(Base):
    __tablename__ = "judged"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "source_scope_id", "source_seq", "target_scope_id"),
        ForeignKeyConstraint(
            ["agent_key", "source_scope_id", "source_seq"],
            [f"{SCHEMA}.observations.{name}" for name in ("agent_key", "scope_id", "seq")],
        ),
        ForeignKeyConstraint(
            ["agent_key", "target_scope_id"], [f"{SCHEMA}.scopes.{name}" for name in ("agent_key", "scope_id")]
        ),
        key_of("runs", "run_id"),
        CheckConstraint("source_scope_id <> target_scope_id", name="target_scope_id"),
        one_of("outcome", "propagated", "refused", "waiting", "held", "released"),
        CheckConstraint("seq IS NULL OR outcome = 'propagated'", name="seq"),
        Index("judged_seq_idx", "agent_key", "target_scope_id", "seq", postgresql_where=text("seq IS NOT NULL")),
        Index(
            "judged_held_idx",
            "agent_key",
            "source_scope_id",
            "source_seq",
            postgresql_where=text("outcome = 'held'"),
        ),
        {"comment": "One row per observation and wider scope for which it was judged, once; it goes with its source."},
    )

    agent_key: Mapped[int] = column("The agent.")
    source_scope_id: Mapped[int] = column("The scope of the observation that was judged.")
    source_seq: Mapped[int] = column("The observation that was judged.", Integer)
    target_scope_id: Mapped[int] = column("The scope for which it was judged.")
    outcome: Mapped[str] = constant(
        "propagated, refused, waiting (too few say so yet), held (for a person to look at) or released (by one)."
    )
    reason: Mapped[str] = constant("Why, in one word.")
    seq: Mapped[int | None] = column("The observation of the target that says it now; null: none.", Integer)
    run_id: Mapped[int | None] = column("The run in which it was judged; null: a person did.")
    judged_at: Mapped[datetime] = column("When.", server_default=NOW)


class EventRow(Base):
    __tablename__ = "events"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "event_id"),
        key_of("agents"),
        Index("events_seq_idx", "agent_key", "scope_id", "seq", postgresql_where=text("seq IS NOT NULL")),
        Index("events_created_at_idx", "agent_key", "created_at"),
        {
            "comment": "One row per change by a person, a rule or a run; it outlives its subject and holds no text of it."
        },
    )

    agent_key: Mapped[int] = column("The agent.")
    event_id: Mapped[int] = column("Our own key.", Identity(always=False))
    kind: Mapped[str] = constant("status, verification, privacy, correction, forget, hold, alias, rename, undo …")
    actor: Mapped[str | None] = host_id("Who did it, as the host said; null: a rule of ours.")
    reason: Mapped[str | None] = erase("Why, in the words of who did it.")
    scope_id: Mapped[int | None] = column("The scope, which may be gone.")
    seq: Mapped[int | None] = column("The observation, which may be gone.", Integer)
    version: Mapped[int | None] = column("The version of the scope's text.", Integer)
    session_id: Mapped[str | None] = host_id("The session, which may be gone.")
    run_id: Mapped[int | None] = column("The run, which may be gone.")
    detail: Mapped[dict[str, Any]] = constant("Ids, words of ours and counts, by name.", server_default=NO_PAIRS)
    created_at: Mapped[datetime] = column("When.", server_default=NOW)


class HoldRow(Base):
    __tablename__ = "holds"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "hold_id"),
        key_of("agents"),
        one_of("kind", "observation", "user", "session", "group"),
        Index(
            "holds_target_key", "agent_key", "kind", "target", unique=True, postgresql_where=text("released_at IS NULL")
        ),
        {"comment": "One row per legal hold: while it is open, what it covers can't be forgotten."},
    )

    agent_key: Mapped[int] = column("The agent.")
    hold_id: Mapped[int] = column("Our own key.", Identity(always=False))
    kind: Mapped[str] = constant("What it covers: an observation, or all of a user, session or group.")
    target: Mapped[str] = host_id("The id of that.")
    actor: Mapped[str | None] = host_id("Who asked for it.")
    reason: Mapped[str | None] = erase("Why, in the words of who asked for it.")
    created_at: Mapped[datetime] = column("Since when.", server_default=NOW)
    released_at: Mapped[datetime | None] = column("Until when; null: still.")


class UserAliasRow(Base):
    __tablename__ = "user_aliases"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "user_id", "created_at"),
        key_of("agents"),
        CheckConstraint("user_id <> into_user_id", name="into_user_id"),
        CheckConstraint("ended_at >= created_at", name="ended_at"),
        Index(
            "user_aliases_user_id_key", "agent_key", "user_id", unique=True, postgresql_where=text("ended_at IS NULL")
        ),
        Index("user_aliases_into_user_id_idx", "agent_key", "into_user_id", postgresql_where=text("ended_at IS NULL")),
        {"comment": "One row per time that a user's id stood for another user: who was anonymous, then logged in."},
    )

    agent_key: Mapped[int] = column("The agent.")
    user_id: Mapped[str] = host_id("The id that stands for another.")
    into_user_id: Mapped[str] = host_id("The user for whom it stands, and who sees what is its.")
    created_at: Mapped[datetime] = column("Since when.", server_default=NOW)
    ended_at: Mapped[datetime | None] = column("Until when; null: still.")


class RetrievalRow(Base):
    __tablename__ = "retrievals"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "day", "surface", "reason"),
        key_of("agents"),
        one_of("surface", "context", "search", "digest"),
        CheckConstraint("queries > 0", name="queries"),
        CheckConstraint("without_hit BETWEEN 0 AND queries", name="without_hit"),
        CheckConstraint("slowest_seconds BETWEEN 0 AND seconds", name="slowest_seconds"),
        {"comment": "One row per agent, day (UTC), surface and reason: how often memory was asked. It names nobody."},
    )

    agent_key: Mapped[int] = column("The agent.")
    day: Mapped[date] = column("The day in UTC.", Date)
    surface: Mapped[str] = constant("context, search or digest: what was asked for.")
    reason: Mapped[str] = constant("Why observations were searched: asked, recall phrase …; none: they were not.")
    queries: Mapped[int] = column("How often.")
    without_hit: Mapped[int] = column("How often nothing was found; 0 where nothing was searched.")
    seconds: Mapped[float] = column("How long searching took, in sum; 0 where nothing was searched.", Double)
    slowest_seconds: Mapped[float] = column("How long it took at worst.", Double)
