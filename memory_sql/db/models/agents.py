"""Agents, and how often the memory of each was queried."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import CheckConstraint, Date, Double, Identity, PrimaryKeyConstraint, UniqueConstraint
from sqlalchemy.orm import Mapped

from memory_sql.db.models.base import NO_PAIRS, NO_TEXTS, NOW, Base, column, constant, host_id, key_of, one_of, related

if TYPE_CHECKING:
    from memory_sql.db.models.conversations import ConversationRow
    from memory_sql.db.models.people import HoldRow, UserAliasRow
    from memory_sql.db.models.runs import EventRow, RunRow
    from memory_sql.db.models.scopes import ScopeRow


class AgentRow(Base):
    __tablename__ = "agents"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key"),
        UniqueConstraint("agent_id"),
        CheckConstraint("length(agent_id) BETWEEN 1 AND 255", name="agent_id"),
        {"comment": "One row per agent: something that converses and remembers."},
    )

    agent_key: Mapped[int] = column("Internal key of the agent; leads every other key.", Identity(always=False))
    agent_id: Mapped[str] = host_id("The host's id for the agent.")
    created_at: Mapped[datetime] = column("When the agent was first seen.", server_default=NOW)
    settings: Mapped[dict[str, Any]] = constant(
        "Settings that differ from the service's, by name.", server_default=NO_PAIRS
    )
    languages: Mapped[list[str]] = constant("Text-search configurations of its messages.", server_default=NO_TEXTS)

    scopes: Mapped[list[ScopeRow]] = related()
    conversations: Mapped[list[ConversationRow]] = related()
    runs: Mapped[list[RunRow]] = related(order_by="RunRow.run_id")
    events: Mapped[list[EventRow]] = related(order_by="EventRow.event_id")
    holds: Mapped[list[HoldRow]] = related(order_by="HoldRow.hold_id")
    aliases: Mapped[list[UserAliasRow]] = related()
    retrievals: Mapped[list[RetrievalRow]] = related()


class RetrievalRow(Base):
    __tablename__ = "retrievals"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "day", "surface", "reason"),
        key_of("agents"),
        one_of("surface", "context", "search", "digest"),
        CheckConstraint("queries > 0", name="queries"),
        CheckConstraint("without_hit BETWEEN 0 AND queries", name="without_hit"),
        CheckConstraint("slowest_seconds BETWEEN 0 AND seconds", name="slowest_seconds"),
        {
            "comment": "One row per agent, day (UTC), surface and reason: how often memory was queried. It names no user."
        },
    )

    agent_key: Mapped[int] = column("The agent.")
    day: Mapped[date] = column("The day in UTC.", Date)
    surface: Mapped[str] = constant("What was requested: context, search or digest.")
    reason: Mapped[str] = constant(
        "Why results were shown: asked, recall phrase or found. Why not: too little (as much as chance), or none (no search)."
    )
    queries: Mapped[int] = column("Number of queries.")
    without_hit: Mapped[int] = column("Number of these that found nothing; 0 where nothing was searched.")
    seconds: Mapped[float] = column("Total search time in seconds; 0 where nothing was searched.", Double)
    slowest_seconds: Mapped[float] = column("Longest search time of one query, in seconds.", Double)

    agent: Mapped[AgentRow] = related()
