"""The ledgers: model work, and every change to what is remembered."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import CheckConstraint, Identity, Index, Integer, PrimaryKeyConstraint, text
from sqlalchemy.orm import Mapped

from memory_sql.db.models.base import (
    NO_PAIRS,
    NOW,
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
    from memory_sql.db.models.conversations import ConversationRow
    from memory_sql.db.models.observations import ObservationRow
    from memory_sql.db.models.scopes import ScopeRow


class RunRow(Base):
    __tablename__ = "runs"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "run_id"),
        key_of("agents"),
        key_of("conversations", "conversation_id"),
        key_of("scopes", "scope_id"),
        one_of("kind", "formation", "consolidation", "propagation", "import", "recheck"),
        one_of("state", "running", "answered", "succeeded", "empty", "failed", "dead", "discarded", "retired"),
        CheckConstraint(
            "CASE kind WHEN 'formation' THEN conversation_id IS NOT NULL AND scope_id IS NULL "
            "WHEN 'import' THEN num_nonnulls(conversation_id, scope_id) = 1 "
            "ELSE scope_id IS NOT NULL AND conversation_id IS NULL END",
            name="target",
        ),
        CheckConstraint("(state IN ('failed', 'dead', 'discarded')) = (error_code IS NOT NULL)", name="error_code"),
        CheckConstraint("(state IN ('running', 'answered')) = (finished_at IS NULL)", name="finished_at"),
        Index(
            "runs_conversation_id_idx",
            "agent_key",
            "conversation_id",
            "to_number",
            postgresql_where=text("conversation_id IS NOT NULL"),
        ),
        Index("runs_scope_id_idx", "agent_key", "scope_id", "to_seq", postgresql_where=text("scope_id IS NOT NULL")),
        Index("runs_held_idx", "agent_key", "scope_id", "run_id", postgresql_where=text("held IS NOT NULL")),
        Index("runs_import_id_idx", "agent_key", "import_id", postgresql_where=text("import_id IS NOT NULL")),
        Index("runs_finished_at_idx", "agent_key", "run_id", postgresql_where=text("finished_at IS NULL")),
        Index("runs_error_code_idx", "finished_at", postgresql_where=text("error_code IS NOT NULL")),
        Index("runs_signals_unheard_idx", "finished_at", postgresql_where=text("refused ? 'signals_unheard'")),
        # The day as memory.v_model_cost has it:
        Index("runs_started_at_idx", "agent_key", text("((started_at AT TIME ZONE 'UTC')::date)")),
        Index("runs_dead_idx", "agent_key", "run_id", postgresql_where=text("state = 'dead'")),
        {"comment": "One row per attempt at model work: what it read, what it cost and how it ended."},
    )

    agent_key: Mapped[int] = column("The agent.")
    run_id: Mapped[int] = column("Internal key of the run; unique in the database.", Identity(always=False))
    kind: Mapped[str] = constant(
        "formation (of a conversation), consolidation, propagation, recheck (of a scope) or import (of either)."
    )
    conversation_id: Mapped[str | None] = host_id(
        "The conversation, for a formation, or for an import of a conversation that another system has formed."
    )
    from_number: Mapped[int | None] = column("A formation read the messages after this number …")
    to_number: Mapped[int | None] = column("… up to and including this one.")
    scope_id: Mapped[int | None] = column("The scope, for the other kinds.")
    from_seq: Mapped[int | None] = column("A consolidation read the observations after this number …", Integer)
    to_seq: Mapped[int | None] = column("… up to and including this one.", Integer)
    fence: Mapped[int] = column("The lease under which it ran.")
    state: Mapped[str] = constant(
        "running, answered, succeeded, empty, failed, dead (given up for a day or more), discarded or retired (another "
        "run has read its messages again)."
    )
    answer: Mapped[str | None] = erase("The model's raw answer, kept from its arrival until it is applied.")
    held: Mapped[dict[str, Any] | None] = erase(
        "A text that waits for a person, with what it was made from; null: none."
    )
    model: Mapped[str | None] = constant("The model that answered.")
    prompt_version: Mapped[str | None] = constant("The prompt that it was asked with.")
    input_tokens: Mapped[int | None] = column("Tokens sent, as the provider counts them.", Integer)
    output_tokens: Mapped[int | None] = column("Tokens received, as the provider counts them.", Integer)
    latency_seconds: Mapped[float | None] = column("How long the model took, in seconds.")
    observations: Mapped[int | None] = column("Observations that it stored or absorbed.", Integer)
    duplicates: Mapped[int | None] = column(
        "Extracted statements that were already known; the known observation gained evidence.", Integer
    )
    refused: Mapped[dict[str, Any]] = constant(
        "Parts of the answer that were corrected or left out, counted by reason.", server_default=NO_PAIRS
    )
    error_code: Mapped[str | None] = constant("Why it failed, in one word.")
    error: Mapped[str | None] = constant("Why it failed, in a sentence that contains no remembered text.")
    started_at: Mapped[datetime] = column("When it began.", server_default=NOW)
    finished_at: Mapped[datetime | None] = column("When it ended; null: not ended yet.")
    seen: Mapped[dict[str, Any]] = erase(
        "What a formation's prompt showed, kept until it ends: the epochs of its conversation and of its scopes, by name.",
        server_default=NO_PAIRS,
    )
    calls: Mapped[int] = column("Number of model calls that it made.", Integer, server_default=ZERO)
    import_id: Mapped[int | None] = column("The import that stored its results; null: none.")
    forgotten: Mapped[int] = column(
        "How many of its observations have been forgotten since.", Integer, server_default=ZERO
    )

    agent: Mapped[AgentRow] = related()
    conversation: Mapped[ConversationRow | None] = related()
    scope: Mapped[ScopeRow | None] = related()
    observed: Mapped[list[ObservationRow]] = related()


class EventRow(Base):
    __tablename__ = "events"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "event_id"),
        key_of("agents"),
        Index("events_scope_id_idx", "agent_key", "scope_id", "seq", postgresql_where=text("scope_id IS NOT NULL")),
        Index("events_created_at_idx", "agent_key", "created_at"),
        Index(
            "events_user_id_idx",
            "agent_key",
            text("coalesce(detail ->> 'user_id', detail ->> 'conversation_id')"),
            postgresql_where=text("kind IN ('alias', 'membership', 'rename')"),
        ),
        Index(
            "events_into_user_id_idx",
            "agent_key",
            text("(detail ->> 'into_user_id')"),
            postgresql_where=text("kind = 'alias'"),
        ),
        Index("events_forget_idx", "agent_key", text("(detail ->> 'id')"), postgresql_where=text("kind = 'forget'")),
        Index(
            "events_conversation_id_idx",
            "agent_key",
            "conversation_id",
            postgresql_where=text("kind = 'forget' AND conversation_id IS NOT NULL"),
        ),
        Index(
            "events_entry_idx", "agent_key", "event_id", postgresql_where=text("kind = 'forget' AND detail ? 'entry'")
        ),
        Index(
            "events_request_idx",
            "created_at",
            "event_id",
            postgresql_where=text("kind = 'status' AND detail ? 'request' AND reason IS NOT NULL"),
        ),
        Index("events_action_idx", "agent_key", "event_id", postgresql_where=text("kind = 'action'")),
        Index("events_spoken_idx", "agent_key", "event_id", postgresql_where=text("kind = 'spoken'")),
        Index("events_was_idx", "agent_key", text("(detail ->> 'was')"), postgresql_where=text("kind = 'rename'")),
        {
            "comment": "One row per change by a person, a rule or a run; it outlives its subject and holds none of its text."
        },
    )

    agent_key: Mapped[int] = column("The agent.")
    event_id: Mapped[int] = column("Internal key.", Identity(always=False))
    kind: Mapped[str] = constant(
        "status, verification, privacy, correction, forget, hold, alias, rename, spoken, undo, action …"
    )
    actor: Mapped[str | None] = host_id("Who did it, as given by the host; null: a rule or a run.")
    reason: Mapped[str | None] = erase("Why, in the words of whoever did it.")
    scope_id: Mapped[int | None] = column("The scope, which may be gone.")
    seq: Mapped[int | None] = column("The observation, which may be gone.", Integer)
    version: Mapped[int | None] = column("The version of the scope's text; null: none.", Integer)
    conversation_id: Mapped[str | None] = host_id("The conversation, which may be gone.")
    run_id: Mapped[int | None] = column("The run, which may be gone.")
    detail: Mapped[dict[str, Any]] = constant(
        "Ids, counts and the library's own words, by name; never remembered text.", server_default=NO_PAIRS
    )
    created_at: Mapped[datetime] = column("When it happened.", server_default=NOW)

    agent: Mapped[AgentRow] = related()
