"""Observations, with the state and the evidence of each."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any, get_args

from sqlalchemy import (
    CheckConstraint,
    ColumnElement,
    Date,
    Double,
    Identity,
    Index,
    Integer,
    PrimaryKeyConstraint,
    SmallInteger,
    Text,
    cast,
    func,
    literal_column,
    text,
)
from sqlalchemy.dialects.postgresql import DATEMULTIRANGE, JSONB
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import Mapped, mapped_column

from memory_sql.config.kinds import LANGUAGES, Lane
from memory_sql.db.models.base import (
    FALSE,
    NO_PAIRS,
    NO_TEXTS,
    NOW,
    READABLE,
    SEARCH_EXTRA,
    Base,
    column,
    constant,
    cue_vector,
    erase,
    host_id,
    key_of,
    one_of,
    related,
    search_vector,
    standing,
    withdrawn_by,
)
from memory_sql.domain.classification import RULES
from memory_sql.domain.ids import observation_id
from memory_sql.domain.observations import SET_ASIDE, Policy, Stage
from memory_sql.privacy import SENSITIVITIES

if TYPE_CHECKING:
    from memory_sql.db.models.conversations import MessageRow
    from memory_sql.db.models.propagation import JudgedRow, LineageRow
    from memory_sql.db.models.runs import RunRow
    from memory_sql.db.models.scopes import ScopeRow
    from memory_sql.db.models.uses import ObservationFeedbackRow, ObservationRetrievalRow


OUTDATED = f"classified_by < {RULES}"
SOUGHT = text("standing IN ('active', 'archived', 'superseded')")  # as memory.is_sought
FOUND_COLD = "NOT cold OR standing IN ('active', 'archived')"


class ObservationRow(Base):
    __tablename__ = "observations"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "scope_id", "seq"),
        key_of("scopes", "scope_id"),
        key_of("runs", "run_id"),
        CheckConstraint("seq > 0", name="seq"),
        CheckConstraint("content ~ '\\S'", name="content"),
        CheckConstraint("part_of < seq", name="part_of"),
        CheckConstraint(f"observed_at {READABLE}", name="observed_at"),
        CheckConstraint(f"given_at {READABLE}", name="given_at"),
        CheckConstraint("confidence BETWEEN 0 AND 1", name="confidence"),
        CheckConstraint("importance BETWEEN 0 AND 1", name="importance"),
        one_of("lane", *get_args(Lane)),
        one_of("source_kind", "formation", "observe", "propagation", "import"),
        one_of("sensitivity", *SENSITIVITIES),
        CheckConstraint("proposed ~ '^(collective|s[0-9]+)$'", name="proposed"),
        one_of("language", *LANGUAGES),
        CheckConstraint(FOUND_COLD, name="cold"),
        Index(
            "observations_fact_key_idx",
            "agent_key",
            "scope_id",
            "fact_key",
            "standing",
            postgresql_where=text("fact_key IS NOT NULL"),
        ),
        Index(
            "observations_tags_idx",
            "agent_key",
            "scope_id",
            text("coalesce(said_again_at, observed_at) DESC"),
            "seq",
            postgresql_where=text("tags <> '{}' AND standing = 'active'"),
        ),
        # For what is forgotten with a conversation although none of its messages is evidence for it.
        Index(
            "observations_conversation_id_idx",
            "agent_key",
            "conversation_id",
            postgresql_where=text("source_kind IN ('observe', 'import') AND conversation_id IS NOT NULL"),
        ),
        # observation_id of the views
        Index("observations_seq_idx", text("((('o'::text || scope_id::text) || '-'::text) || seq::text)")),
        Index(
            "observations_part_of_idx",
            "agent_key",
            "scope_id",
            "part_of",
            postgresql_where=text("part_of IS NOT NULL"),
        ),
        # What no read finds any more is in none of these: it costs nothing however much of it there is.
        Index("observations_standing_idx", "agent_key", "scope_id", "standing", "seq", "cold", postgresql_where=SOUGHT),
        # Of which scopes something is cold: none, where `tiering` has never been on.
        Index("observations_cold_idx", "agent_key", "scope_id", "seq", postgresql_where=text("cold")),
        Index(
            "observations_created_at_idx",
            "agent_key",
            "scope_id",
            text("greatest(created_at, said_again_at)"),
            "seq",
            postgresql_where=text("standing = 'active'"),
        ),
        Index(
            "observations_said_again_at_idx",
            "agent_key",
            "scope_id",
            "said_again_at",
            "seq",
            postgresql_where=text("said_again_at IS NOT NULL AND standing = 'active'"),
        ),
        Index(
            "observations_content_hash_seq_idx",
            "agent_key",
            "scope_id",
            "content_hash",
            "seq",
            postgresql_where=text("standing = 'active'"),
        ),
        Index(
            "observations_buffer_idx",
            "agent_key",
            "scope_id",
            "seq",
            postgresql_where=text("lane = 'buffer' AND standing = 'active'"),
        ),
        Index(
            "observations_content_hash_idx",
            "agent_key",
            "scope_id",
            "content_hash",
            postgresql_where=text(f"standing IN {tuple(SET_ASIDE)}"),
        ),
        # With a pending list, every search would have to read it, and some save would have to empty it.
        Index(
            "observations_search_idx",
            text("memory.search_tokens(memory.search_space(scope_id, seq, standing, cold), search || cues)"),
            postgresql_using="gin",
            postgresql_with={"fastupdate": "off"},
            postgresql_where=SOUGHT,
        ),
        # What may expire: the sweep reads this and the states' index alone.
        Index(
            "observations_until_idx",
            "agent_key",
            "scope_id",
            "seq",
            postgresql_where=text("standing = 'active' AND (confidence < 0.4 OR until IS NOT NULL)"),
        ),
        # What an older version of the rules has classified; none, until there is a newer one.
        Index("observations_classified_by_idx", "agent_key", "scope_id", "seq", postgresql_where=text(OUTDATED)),
        Index(
            "observations_subjects_idx", "subjects", postgresql_using="gin", postgresql_where=text("subjects <> '{}'")
        ),
        {
            "comment": "One row per observation: one remembered statement. Its text never changes.",
            # Until it comes, the text index leads to old versions of what isn't in use any more.
            "postgresql_with": {"autovacuum_vacuum_scale_factor": 0.05},
        },
    )

    agent_key: Mapped[int] = column("The agent.")
    scope_id: Mapped[int] = column("The scope.")
    seq: Mapped[int] = column("1, 2, 3 … in the order in which the scope gained them.", Integer)
    content: Mapped[str] = erase("What is remembered.")
    observed_at: Mapped[datetime] = column("When it was said.")
    given_at: Mapped[datetime | None] = column(
        "The time the host gave, if more than a day in the future: observed_at is then the time of storing. Else null."
    )
    said_again_at: Mapped[datetime | None] = column(
        "When it was last said again, which a trigger keeps here too, for indexes; null: observed_at is the last time."
    )
    created_at: Mapped[datetime] = column("When it was stored.", server_default=NOW)
    source_kind: Mapped[str] = constant("formation, observe, propagation or import.")
    conversation_id: Mapped[str | None] = host_id("The conversation that it comes from; null: none, or several.")
    speaker: Mapped[str | None] = erase("Who said it, by name.")
    message_ids: Mapped[list[str]] = host_id("The messages that it comes from.", server_default=NO_TEXTS)
    related_users: Mapped[list[str]] = host_id("The users who said it.", server_default=NO_TEXTS)
    subjects: Mapped[list[str]] = host_id("The users whom it is about, as far as is known.", server_default=NO_TEXTS)
    part_of: Mapped[int | None] = column(
        "The observation of the same scope of which this is what still held when that was overtaken; null: none.",
        Integer,
    )
    run_id: Mapped[int | None] = column("The run that made it, or what it is a part of; null: none.")
    legacy_ref: Mapped[str | None] = host_id(
        "The document that it was imported from, as collection:id; null: it wasn't imported."
    )
    lane: Mapped[str] = constant(
        "absorb (will be consolidated) or buffer (only the newest are kept; never consolidated).",
        server_default=text("'absorb'"),
    )
    standing: Mapped[str] = standing()
    cold: Mapped[bool] = column(
        "True: searches rank it only if others don't fill the result. Only what they find can be.", server_default=FALSE
    )
    category: Mapped[str | None] = host_id("A word for what it is: preference, decision …; null: not classified.")
    kind: Mapped[str | None] = constant("episode, note, fact or procedure; null: not classified.")
    confidence: Mapped[float | None] = column(
        "0 to 1, as judged when it was made, or when it was said again, if that was surer; null: not known.", Double
    )
    importance: Mapped[float | None] = column("0 to 1, as judged when it was made; null: not known.", Double)
    classified_by: Mapped[int | None] = column(
        "Version of the rules that gave kind and importance; 0: they are about to; null: one of these is the host's, or"
        " neither is known.",
        SmallInteger,
    )
    until: Mapped[date | None] = column("The day on which what it says is over; null: not known, or never.", Date)
    sensitivity: Mapped[str] = constant("public, private or sensitive.", server_default=text("'private'"))
    no_propagate: Mapped[bool] = column("True: it never leaves its scope.", server_default=FALSE)
    confidential: Mapped[bool] = column("True: said in confidence; it never leaves its scope.", server_default=FALSE)
    proposed: Mapped[str | None] = constant(
        "Wider scope that extraction proposed, reached only by propagation: collective, or a group's scope, s12."
    )
    tags: Mapped[list[str]] = erase("The host's tags.", server_default=NO_TEXTS)
    metadata_: Mapped[dict[str, Any]] = mapped_column(
        "metadata", JSONB, server_default=NO_PAIRS, comment="The host's own data about it.", info={"text": "erase"}
    )
    content_hash: Mapped[bytes | None] = column(
        "HMAC of the text's normal form, under the database's key; null: it counts as no duplicate."
    )
    hash_version: Mapped[int] = column("Version of the normal form.", SmallInteger)
    language: Mapped[str] = constant("Text-search configuration.", server_default=text("'english'"))
    search_extra: Mapped[str] = erase(SEARCH_EXTRA, server_default=text("''"))
    search: Mapped[Any] = search_vector("What full-text search reads.")
    terms: Mapped[str] = erase(
        "Search cues: words that somebody may ask with and its text lacks, one a line; never shown.",
        server_default=text("''"),
    )
    cues: Mapped[Any] = cue_vector("What full-text search reads of the terms.")
    dates: Mapped[Any] = mapped_column(
        DATEMULTIRANGE, nullable=True, comment="The calendar days that its text mentions; null: none."
    )
    fact_key: Mapped[str | None] = erase(
        "The host's name for the fact that it states; a newer observation with the same name supersedes it."
    )
    categories: Mapped[list[str] | None] = constant(
        "Kinds of personal data in it: contact, credential, financial …; empty: none; null: never classified, so personal."
    )

    scope: Mapped[ScopeRow] = related()
    state: Mapped[ObservationStateRow | None] = related()
    evidence: Mapped[list[EvidenceRow]] = related(order_by="EvidenceRow.evidence_id")
    run: Mapped[RunRow | None] = related()
    sources: Mapped[list[LineageRow]] = related(
        foreign_keys="[LineageRow.agent_key, LineageRow.scope_id, LineageRow.seq]"
    )
    derived: Mapped[list[LineageRow]] = related(
        foreign_keys="[LineageRow.agent_key, LineageRow.source_scope_id, LineageRow.source_seq]"
    )
    judgements: Mapped[list[JudgedRow]] = related()
    retrievals: Mapped[list[ObservationRetrievalRow]] = related()
    feedback: Mapped[list[ObservationFeedbackRow]] = related()

    @hybrid_property
    def said_at(self) -> datetime:
        """When it was said last, the same as `memory_sql.Observation.said_at`; queries can use it too."""
        return self.said_again_at or self.observed_at

    @said_at.inplace.expression
    @classmethod
    def _said_at(cls) -> ColumnElement[datetime]:
        return func.coalesce(cls.said_again_at, cls.observed_at)

    @hybrid_property
    def observation_id(self) -> str:
        """`o<scope_id>-<seq>`, the same as `memory_sql.Observation.id`; queries can use it too, with an index."""
        return observation_id(self.scope_id, self.seq)

    @observation_id.inplace.expression
    @classmethod
    def _observation_id(cls) -> ColumnElement[str]:
        return (
            literal_column("'o'")
            .concat(cast(cls.scope_id, Text))
            .concat(literal_column("'-'"))
            .concat(cast(cls.seq, Text))
        )


RESOLVED = text("resolved IS NOT NULL AND status = 'archived'")


class ObservationStateRow(Base):
    __tablename__ = "observation_states"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "scope_id", "seq"),
        key_of("observations", "scope_id", "seq", goes_along=True),
        one_of("status", "active", "superseded", "archived", "quarantined", "given_up", "evicted", "withdrawn"),
        one_of("verification", "unverified", "confirmed", "disputed"),
        one_of("stage", *get_args(Stage)),
        one_of("policy", *get_args(Policy)),
        CheckConstraint("stage <> 'archived' OR policy <> 'protected'", name="protected"),
        CheckConstraint("superseded_by IS NULL OR status <> 'withdrawn'", name="superseded_by"),
        CheckConstraint("NOT follows OR status NOT IN ('active', 'withdrawn')", name="follows"),
        CheckConstraint("(status = 'withdrawn') = (withdrawn_by IS NOT NULL)", name="withdrawn_by"),
        one_of("resolved", "fulfilled", "expired"),
        CheckConstraint("resolved IS NULL OR resolved_at IS NOT NULL", name="resolved_at"),
        Index(
            "observation_states_repend_idx",
            "agent_key",
            "scope_id",
            "seq",
            postgresql_where=text("repend AND (status IS NULL OR status = 'active')"),  # the same as memory.in_use
        ),
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
            postgresql_where=text(f"status IN {tuple(SET_ASIDE)}"),  # the same as memory.is_aside
        ),
        Index(
            "observation_states_withdrawn_by_idx",
            "agent_key",
            "scope_id",
            "seq",
            postgresql_where=text("withdrawn_by IS NOT NULL"),
        ),
        Index("observation_states_follows_idx", "agent_key", "scope_id", "seq", postgresql_where=text("follows")),
        Index(
            "observation_states_verification_idx",
            "agent_key",
            "scope_id",
            "seq",
            postgresql_where=text("verification = 'disputed'"),
        ),
        Index(  # as memory.in_use: a context shows these, whatever has become of others
            "observation_states_scope_id_seq_idx",
            "agent_key",
            "scope_id",
            "seq",
            postgresql_where=text("verification = 'disputed' AND (status IS NULL OR status = 'active')"),
        ),
        Index(
            "observation_states_expires_at_idx",
            "agent_key",
            "scope_id",
            "seq",
            postgresql_where=text(
                "expires_at IS NOT NULL AND status = 'active' OR resolved IS NOT NULL AND status = 'archived'"
            ),
        ),
        Index("observation_states_status_at_idx", "agent_key", "scope_id", "status_at", postgresql_where=RESOLVED),
        {
            "comment": "One row per observation whose state differs from the defaults: the part that may change.",
            "postgresql_with": {"fillfactor": 70},
        },
    )

    agent_key: Mapped[int] = column("The agent.")
    scope_id: Mapped[int] = column("The scope.")
    seq: Mapped[int] = column("The observation.", Integer)
    status: Mapped[str] = constant(
        "active, superseded, archived, quarantined, given_up, evicted or withdrawn.", server_default=text("'active'")
    )
    status_at: Mapped[datetime] = column("Since when it has this status.", server_default=NOW)
    repend: Mapped[bool] = column("True: pending again, although a consolidation has passed it.", server_default=FALSE)
    superseded_by: Mapped[int | None] = column(
        "The observation of the same scope that superseded it, or would if it weren't set aside; null: none.", Integer
    )
    follows: Mapped[bool] = column(
        "True: not active because its sources aren't; it becomes active again with them.", server_default=FALSE
    )
    verification: Mapped[str] = constant("unverified, confirmed or disputed.", server_default=text("'unverified'"))
    stage: Mapped[str] = constant(
        "candidate, validated, active, stale or archived: how alive it was when it was last looked at, for searches.",
        server_default=text("'candidate'"),
    )
    policy: Mapped[str] = constant(
        "ephemeral, durable or protected (no rule archives or expires it), as the host says.",
        server_default=text("'durable'"),
    )
    withdrawn_by: Mapped[str | None] = withdrawn_by()
    said_again_at: Mapped[datetime | None] = column(
        "When it was last said again, by its evidence; null: not after observed_at."
    )
    expires_at: Mapped[datetime | None] = column(
        "When it is evicted if it is still in use, or was; null: the settings say when, if ever."
    )
    resolved: Mapped[str | None] = constant(
        "fulfilled or expired: what it planned is over, and it is archived; null: it isn't over."
    )
    resolved_at: Mapped[datetime | None] = column(
        "Since when it is resolved; if resolved is null, when that was taken back: its day no longer ends it."
    )

    observation: Mapped[ObservationRow] = related()


class EvidenceRow(Base):
    __tablename__ = "evidence"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "evidence_id"),
        key_of("observations", "scope_id", "seq"),
        key_of("messages", "conversation_id", "number"),
        CheckConstraint("(conversation_id IS NULL) = (number IS NULL)", name="number"),
        Index("evidence_seq_idx", "agent_key", "scope_id", "seq"),
        Index(
            "evidence_number_idx", "agent_key", "conversation_id", "number", postgresql_where=text("number IS NOT NULL")
        ),
        Index(
            "evidence_withdrawn_by_idx",
            "agent_key",
            "scope_id",
            "seq",
            postgresql_where=text("withdrawn_by IS NOT NULL"),
        ),
        Index(
            "evidence_repeated_seq_idx",
            "agent_key",
            "scope_id",
            "repeated_seq",
            postgresql_where=text("repeated_seq IS NOT NULL"),
        ),
        Index("evidence_user_id_idx", "agent_key", "user_id", postgresql_where=text("user_id IS NOT NULL")),
        {"comment": "One row per message or person that supports an observation; every observation has at least one."},
    )

    agent_key: Mapped[int] = column("The agent.")
    evidence_id: Mapped[int] = column("Internal key.", Identity(always=False))
    scope_id: Mapped[int] = column("The observation's scope.")
    seq: Mapped[int] = column("The observation.", Integer)
    conversation_id: Mapped[str | None] = host_id(
        "The message's conversation; null: the evidence is a statement of a person or the host, or its sources."
    )
    number: Mapped[int | None] = column("Number of the message; null: it isn't a message.")
    user_id: Mapped[str | None] = host_id("The user who said it; null: no user.")
    run_id: Mapped[int | None] = column("The run that found it; null: none.")
    created_at: Mapped[datetime] = column("When it was found.", server_default=NOW)
    repeated_seq: Mapped[int | None] = column(
        "The observation of the same scope that says the same and lent this evidence; null: its own.", Integer
    )
    withdrawn_by: Mapped[str | None] = withdrawn_by()
    said_at: Mapped[datetime | None] = column(
        "When it was said again, by this message or person; null: it is of what was stored, not of saying it again."
    )
    confidence: Mapped[float | None] = column(
        "How sure that was, 0 to 1. Of what was stored it is kept here once it is said again; null: not known.", Double
    )
    apart: Mapped[bool] = column(
        "True: said again after something else: it stands for itself, whoever said it first. False: at once, which confirms.",
        server_default=FALSE,
    )

    observation: Mapped[ObservationRow] = related()
    message: Mapped[MessageRow | None] = related()
    run: Mapped[RunRow | None] = related(  # no foreign key in the database: `verify` checks that it exists
        primaryjoin="and_(RunRow.agent_key == foreign(EvidenceRow.agent_key), RunRow.run_id == foreign(EvidenceRow.run_id))"
    )
