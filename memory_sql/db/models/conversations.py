"""Conversations and their messages."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import CheckConstraint, Index, Integer, PrimaryKeyConstraint, UniqueConstraint, text
from sqlalchemy.orm import Mapped

from memory_sql.config.kinds import LANGUAGES
from memory_sql.db.models.base import (
    FALSE,
    NEVER_JUDGED,
    NO_TEXTS,
    NOW,
    READABLE,
    SEARCH_EXTRA,
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
    search_vector,
    withdrawn_by,
)

if TYPE_CHECKING:
    from memory_sql.db.models.agents import AgentRow
    from memory_sql.db.models.observations import EvidenceRow
    from memory_sql.db.models.runs import RunRow


RESTS = "due_reason = 'rest'"
WAITS = f"(due_at IS NULL OR {RESTS}) AND dead_run_id IS NULL AND NOT excluded"
BUSY = "lease_until IS NOT NULL OR failures > 0 OR errors > 0"


class ConversationRow(Base):
    __tablename__ = "conversations"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "conversation_id"),
        key_of("agents"),
        CheckConstraint("formed_number BETWEEN 0 AND last_number", name="formed_number"),
        CheckConstraint("(due_at IS NULL) = (due_reason IS NULL)", name="due"),
        CheckConstraint("dead_run_id IS NULL OR due_at IS NULL", name="dead_run_id"),
        one_of("due_reason", "signal", "messages", "tokens", "age", "cold", "rest", "retry"),
        Index("conversations_due_at_idx", "due_at", postgresql_where=text("due_at IS NOT NULL")),
        # With a pending list, every search for a user's conversations would have to read that list too.
        Index(
            "conversations_participants_idx",
            text("memory.user_tokens(agent_key, participants)"),
            postgresql_using="gin",
            postgresql_with={"fastupdate": "off"},
        ),
        Index(
            "conversations_text_since_idx", "agent_key", "text_since", postgresql_where=text("text_since IS NOT NULL")
        ),
        # Columns that change with each message must not be in an index or its condition, or updates couldn't be HOT.
        Index("conversations_waits_below_idx", "agent_key", "waits_below", postgresql_where=text(WAITS)),
        Index("conversations_user_id_idx", "agent_key", "user_id", postgresql_where=text(RESTS)),
        Index("conversations_lease_until_idx", "agent_key", postgresql_where=text(BUSY)),
        {
            "comment": "One row per conversation of an agent, with how far formation has read it.",
            "postgresql_with": {"fillfactor": 70},
        },
    )

    agent_key: Mapped[int] = column("The agent.")
    conversation_id: Mapped[str] = host_id("The host's id for the conversation.")
    user_id: Mapped[str] = host_id("The user whom the host named with the first message.")
    participants: Mapped[list[str]] = host_id("All users who have written in it.", server_default=NO_TEXTS)
    group_ids: Mapped[list[str]] = host_id("The groups in which it takes place.", server_default=NO_TEXTS)
    refused: Mapped[list[str]] = constant(
        "Ids (made from idempotency keys) of messages that were too long and haven't been sent again.",
        server_default=NO_TEXTS,
    )
    last_number: Mapped[int] = column("Number of the newest message.", server_default=ZERO)
    formed_number: Mapped[int] = column("Number of the last message that a formation has read.", server_default=ZERO)
    unformed_messages: Mapped[int] = column(
        "Messages after formed_number, without those that formation skips.", Integer, server_default=ZERO
    )
    unformed_tokens: Mapped[float] = column("Weighted tokens of these messages.", server_default=ZERO)
    epoch: Mapped[int] = column(
        "Rises when a message is forgotten; work begun under an earlier epoch is refused.", Integer, server_default=ZERO
    )
    due_at: Mapped[datetime | None] = column("When formation is due; null: nothing to do.")
    due_reason: Mapped[str | None] = constant("Why it is due: signal, messages, tokens, age, cold, rest or retry.")
    fence: Mapped[int] = column("Number of the newest lease; work under an older one is refused.", server_default=ZERO)
    lease_until: Mapped[datetime | None] = column(
        "When the worker's lease ends, by the database's clock; null: no lease."
    )
    created_at: Mapped[datetime] = column("When the first message arrived.", server_default=NOW)
    last_activity_at: Mapped[datetime] = column("When the newest message arrived.", server_default=NOW)
    excluded: Mapped[bool] = column("True: nothing said in it is to be remembered.", server_default=FALSE)
    shared: Mapped[bool] = column(
        "True: the host says that all members of its groups hear it, whoever has spoken.", server_default=FALSE
    )
    failures: Mapped[int] = column(
        "Consecutive attempts in which the model gave no answer.", Integer, server_default=ZERO
    )
    errors: Mapped[int] = column("Consecutive answers that could not be used.", Integer, server_default=ZERO)
    dead_run_id: Mapped[int | None] = column("The run after which it was given up; null: not given up.")
    waits_below: Mapped[int] = column(
        "When last checked, fewer unformed messages than this had to wait for a signal or a rest; 2147483647: never checked.",
        Integer,
        server_default=text(str(NEVER_JUDGED)),
    )
    time_zone: Mapped[str | None] = constant("Time zone of its calendar days (IANA name); null: the default.")
    unformed_since: Mapped[datetime | None] = column(
        "When the oldest message that no formation has read arrived; null: none."
    )
    text_since: Mapped[datetime | None] = column(
        "No later than the arrival of the oldest message that still has its text; null: none has."
    )

    agent: Mapped[AgentRow] = related()
    messages: Mapped[list[MessageRow]] = related(order_by="MessageRow.number")
    runs: Mapped[list[RunRow]] = related(order_by="RunRow.run_id")


class MessageRow(Base):
    __tablename__ = "messages"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "conversation_id", "number"),
        key_of("conversations", "conversation_id"),
        # Not in the order of the primary key: of two alike indexes the planner may take the wrong one, and read a whole
        # conversation to find one message.
        UniqueConstraint("agent_key", "message_id", "conversation_id"),
        CheckConstraint("number > 0", name="number"),
        CheckConstraint(f"said_at {READABLE}", name="said_at"),
        CheckConstraint(f"given_at {READABLE}", name="given_at"),
        CheckConstraint("owner LIKE 'u:_%'", name="owner"),
        CheckConstraint("content IS NULL OR content_hash IS NULL", name="content_hash"),
        Index(
            "messages_search_idx",
            text("memory.search_tokens(hashtextextended(owner, agent_key), search)"),
            postgresql_using="gin",
            postgresql_with={"fastupdate": "off"},
            postgresql_where=text("content IS NOT NULL"),
        ),
        Index(
            "messages_withdrawn_by_idx",
            "agent_key",
            "conversation_id",
            "number",
            postgresql_where=text("withdrawn_by IS NOT NULL"),
        ),
        one_of("language", *LANGUAGES),
        {"comment": "One row per message. The row outlives its text, so that the message isn't stored twice."},
    )

    agent_key: Mapped[int] = column("The agent.")
    conversation_id: Mapped[str] = host_id("The conversation.")
    number: Mapped[int] = column("1, 2, 3 … in the order of arrival.")
    message_id: Mapped[str] = host_id("The host's id for the message, or one that the library made.")
    role: Mapped[str] = constant("user, assistant, agent, system, developer, tool or function.")
    user_id: Mapped[str | None] = host_id("The user who wrote it; null for the agent and its tools.")
    speaker: Mapped[str | None] = erase("The speaker's name, as the host gave it.")
    content: Mapped[str | None] = erase("What was said; null once forgotten or past its retention.")
    content_hash: Mapped[bytes | None] = column(
        "Hash of the text that the end of its retention took (memory.message_hash), to recognize the message; else null."
    )
    cleaned: Mapped[list[str]] = constant(
        "What was changed before storing: nul, surrogate, controls, bidi_controls, zero_width, tag_characters, secret.",
        server_default=NO_TEXTS,
    )
    weight: Mapped[float] = column("Weighted tokens: characters / 4.5 × 1 for users, 0.5 for tools, 0.2 for agents.")
    eligible: Mapped[bool] = column(
        "False: formation skips it (a system message, or said while the conversation was excluded).",
        server_default=TRUE,
    )
    signal: Mapped[str | None] = constant("The signal that it carried; null: none.")
    said_at: Mapped[datetime] = column("When it was said.")
    given_at: Mapped[datetime | None] = column(
        "The time the host gave, if more than a day in the future: said_at is then the time of storing. Else null."
    )
    created_at: Mapped[datetime] = column("When it was stored.", server_default=NOW)
    owner: Mapped[str] = host_id("Owner of its conversation: u:<user>, from the conversation's user_id.")
    group_ids: Mapped[list[str] | None] = host_id(
        "The groups named in its call, if the call had an idempotency key; else null."
    )
    language: Mapped[str] = constant("Text-search configuration.", server_default=text("'english'"))
    search_extra: Mapped[str] = erase(SEARCH_EXTRA, server_default=text("''"))
    search: Mapped[Any] = search_vector("What full-text search reads; null once the text is gone.", nullable=True)
    withdrawn_by: Mapped[str | None] = withdrawn_by()
    verbatim: Mapped[bool] = column(
        "True: its retention is over, and it keeps its text for what is remembered of it (keep_verbatim).",
        server_default=FALSE,
    )

    conversation: Mapped[ConversationRow] = related()
    evidence: Mapped[list[EvidenceRow]] = related()
