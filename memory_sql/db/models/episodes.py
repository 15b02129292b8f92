"""Episodes: sealed or open stretches of conversations, and what was remembered in each."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, get_args

from sqlalchemy import CheckConstraint, Identity, Index, Integer, PrimaryKeyConstraint, text
from sqlalchemy.orm import Mapped

from memory_sql.db.models.base import NO_TEXTS, Base, column, constant, erase, host_id, key_of, one_of, related
from memory_sql.domain.episodes import SealReason

if TYPE_CHECKING:
    from memory_sql.db.models.conversations import ConversationRow
    from memory_sql.db.models.observations import ObservationRow

OPEN = "sealed_at IS NULL"


class EpisodeRow(Base):
    __tablename__ = "episodes"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "episode_id"),
        key_of("conversations", "conversation_id", goes_along=True),
        one_of("seal_reason", *get_args(SealReason)),
        CheckConstraint("opened_at <= last_at", name="last_at"),
        CheckConstraint("sealed_at >= last_at", name="sealed_at"),
        CheckConstraint("(sealed_at IS NULL) = (seal_reason IS NULL)", name="sealed"),
        CheckConstraint("(sealed_at IS NULL) = (trace_id IS NULL)", name="trace_id"),
        CheckConstraint("trace_id <= episode_id", name="trace"),
        Index("episodes_conversation_id_key", "agent_key", "conversation_id", unique=True, postgresql_where=text(OPEN)),
        Index("episodes_conversation_id_last_at_idx", "agent_key", "conversation_id", "last_at"),
        Index("episodes_agent_key_last_at_idx", "agent_key", "last_at"),
        Index("episodes_last_at_idx", "last_at", postgresql_where=text(OPEN)),
        Index("episodes_trace_id_idx", "agent_key", "trace_id", "episode_id"),
        {
            "comment": "One row per stretch of a conversation, without a word of it: what it was about is asked of its"
            " observations."
        },
    )  # fmt: skip

    agent_key: Mapped[int] = column("The agent.")
    episode_id: Mapped[int] = column("Key of the episode; unique in the database.", Identity(always=False))
    conversation_id: Mapped[str] = host_id("The conversation. At most one of its episodes is open.")
    opened_at: Mapped[datetime] = column("When the first of what is remembered of it was said.")
    last_at: Mapped[datetime] = column("When the last of it was said.")
    sealed_at: Mapped[datetime | None] = column("When it ended, by the times of the conversation; null: it is open.")
    seal_reason: Mapped[str | None] = constant("Why: max_memories, topic_shift, time_gap or forced; null: it is open.")
    trace_id: Mapped[int | None] = column(
        "The first episode of those, one after another, that are about the same; null: it is open."
    )

    conversation: Mapped[ConversationRow] = related()
    observations: Mapped[list[ObservationEpisodeRow]] = related()


class ObservationEpisodeRow(Base):
    __tablename__ = "observation_episodes"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "scope_id", "seq"),
        key_of("observations", "scope_id", "seq", goes_along=True),
        key_of("episodes", "episode_id", goes_along=True),
        Index("observation_episodes_episode_id_idx", "agent_key", "episode_id"),
        {"comment": "One row per observation that belongs to an episode, with what it is about."},
    )

    agent_key: Mapped[int] = column("The agent.")
    scope_id: Mapped[int] = column("The scope.")
    seq: Mapped[int] = column("The observation.", Integer)
    episode_id: Mapped[int] = column("The episode in which it was said.")
    topics: Mapped[list[str]] = erase(
        "What it is about, in lower case, the most telling first.", server_default=NO_TEXTS
    )

    observation: Mapped[ObservationRow] = related()
    episode: Mapped[EpisodeRow] = related()
