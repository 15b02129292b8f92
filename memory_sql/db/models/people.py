"""Legal holds, the ids that stand for other users, and who stays out of a group though they were forgotten."""

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
    hold_id: Mapped[int] = column("Our own key.", Identity(always=False))
    kind: Mapped[str] = constant("What it covers: an observation, or all of a user, conversation or group.")
    target: Mapped[str] = host_id("The id of that.")
    actor: Mapped[str | None] = host_id("Who asked for it.")
    reason: Mapped[str | None] = erase("Why, in the words of who asked for it.")
    created_at: Mapped[datetime] = column("Since when.", server_default=NOW)
    released_at: Mapped[datetime | None] = column("Until when; null: still.")

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
        Index("user_aliases_into_user_id_idx", "agent_key", "into_user_id", postgresql_where=text("ended_at IS NULL")),
        {"comment": "One row per time that a user's id stood for another user: who was anonymous, then logged in."},
    )

    agent_key: Mapped[int] = column("The agent.")
    user_id: Mapped[str] = host_id("The id that stands for another.")
    into_user_id: Mapped[str] = host_id("The user for whom it stands, and who sees what is its.")
    created_at: Mapped[datetime] = column("Since when.", server_default=NOW)
    ended_at: Mapped[datetime | None] = column("Until when; null: still.")
    withdrawn_by: Mapped[str | None] = withdrawn_by()

    agent: Mapped[AgentRow] = related()


class DepartureRow(Base):
    __tablename__ = "departures"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "user_hash", "scope_id"),
        key_of("scopes", "scope_id"),
        {"comment": "One row per group and id of a user who had left it when they were forgotten; it names nobody."},
    )

    agent_key: Mapped[int] = column("The agent.")
    user_hash: Mapped[bytes] = column("HMAC of the id under the database's key: memory.user_hash.")
    scope_id: Mapped[int] = column("The group's scope.")
