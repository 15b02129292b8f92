"""Legal holds, ids that stand for other users, and the forgotten users who had left a group."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import CheckConstraint, Identity, Index, PrimaryKeyConstraint, text
from sqlalchemy.orm import Mapped

from memory_sql.db.models.base import NOW, Base, column, constant, erase, host_id, key_of, one_of, related, withdrawn_by

if TYPE_CHECKING:
    from memory_sql.db.models.agents import AgentRow


class HoldRow(Base):
    __tablename__ = "holds"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "hold_id"),
        key_of("agents"),
        one_of("kind", "observation", "user", "conversation", "group"),
        Index(
            "holds_target_key", "agent_key", "kind", "target", unique=True, postgresql_where=text("released_at IS NULL")
        ),
        {"comment": "One row per legal hold: while it is open, what it covers can't be forgotten."},
    )

    agent_key: Mapped[int] = column("The agent.")
    hold_id: Mapped[int] = column("Internal key.", Identity(always=False))
    kind: Mapped[str] = constant("What it covers: an observation, or all of a user, conversation or group.")
    target: Mapped[str] = host_id("Id of what it covers.")
    actor: Mapped[str | None] = host_id("Who asked for it.")
    reason: Mapped[str | None] = erase("Why, in the words of who asked for it.")
    created_at: Mapped[datetime] = column("When it began.", server_default=NOW)
    released_at: Mapped[datetime | None] = column("When it ended; null: still open.")

    agent: Mapped[AgentRow] = related()


class UserAliasRow(Base):
    __tablename__ = "user_aliases"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "user_id", "created_at"),
        key_of("agents"),
        CheckConstraint("user_id <> into_user_id", name="into_user_id"),
        CheckConstraint("ended_at >= created_at", name="ended_at"),
        CheckConstraint("withdrawn_by IS NULL OR ended_at IS NOT NULL", name="withdrawn_by"),
        Index(
            "user_aliases_user_id_key", "agent_key", "user_id", unique=True, postgresql_where=text("ended_at IS NULL")
        ),
        Index("user_aliases_into_user_id_idx", "agent_key", "into_user_id"),
        Index("user_aliases_withdrawn_by_idx", "agent_key", postgresql_where=text("withdrawn_by IS NOT NULL")),
        {"comment": "One row per period in which an id stood for another user: a visitor, say, who then logged in."},
    )

    agent_key: Mapped[int] = column("The agent.")
    user_id: Mapped[str] = host_id("The id that stands for another.")
    into_user_id: Mapped[str] = host_id("The user for whom it stands, who sees the memory of both ids.")
    created_at: Mapped[datetime] = column("When it began.", server_default=NOW)
    ended_at: Mapped[datetime | None] = column("When it ended; null: still open.")
    withdrawn_by: Mapped[str | None] = withdrawn_by()

    agent: Mapped[AgentRow] = related()


class DepartureRow(Base):
    __tablename__ = "departures"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "user_hash", "scope_id"),
        key_of("scopes", "scope_id"),
        {"comment": "One row per group and hashed id of a forgotten user who had left the group; it names no user."},
    )

    agent_key: Mapped[int] = column("The agent.")
    user_hash: Mapped[bytes] = column("HMAC of the id under the database's key: memory.user_hash.")
    scope_id: Mapped[int] = column("The group's scope.")


class ForgottenIdRow(Base):
    __tablename__ = "forgotten_ids"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "kind", "id_hash"),
        key_of("agents"),
        one_of("kind", "user", "conversation", "group", "agent"),
        {
            "comment": "One row per user, conversation or group that was forgotten, or the agent itself; it names nobody. "
            "What another store has of them from before isn't imported."
        },
    )

    agent_key: Mapped[int] = column("The agent.")
    kind: Mapped[str] = constant("What was forgotten: user, conversation, group or agent.")
    id_hash: Mapped[bytes] = column("HMAC of the id under the database's key: memory.user_hash.")
    forgotten_at: Mapped[datetime] = column("When it was last forgotten.", server_default=NOW)
