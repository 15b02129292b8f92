"""The map of the shards, which only their home uses: which database holds which agent. And who has left a database."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    ColumnElement,
    ForeignKeyConstraint,
    Index,
    PrimaryKeyConstraint,
    UniqueConstraint,
    all_,
    func,
    select,
    text,
)
from sqlalchemy.orm import Mapped

from memory_sql.db.models.base import NOW, SCHEMA, ZERO, Base, column, constant, host_id


class ShardRow(Base):
    __tablename__ = "shards"
    __table_args__ = (
        PrimaryKeyConstraint("shard"),
        UniqueConstraint("number"),
        CheckConstraint("shard ~ '^[a-z][a-z0-9_-]{0,39}$'", name="shard"),
        CheckConstraint("number BETWEEN 0 AND 9999999", name="number"),
        CheckConstraint("agents >= 0", name="agents"),
        {"comment": "One row per shard, in their home: the databases over which agents are spread."},
    )

    shard: Mapped[str] = constant("The name of the shard, as the setting shards has it.")
    number: Mapped[int] = column("Its number: the ids that it gives begin with number * 10^10 + 1; 0: the home.")
    agents: Mapped[int] = column("How many agents the map places there.", server_default=ZERO)
    version: Mapped[int] = column("The highest of all shards is the version of the map; an agent that moves raises it.")
    joined_at: Mapped[datetime] = column("When it joined.", server_default=NOW)


class AgentShardRow(Base):
    __tablename__ = "agent_shards"
    __table_args__ = (
        PrimaryKeyConstraint("agent_id"),
        ForeignKeyConstraint(["shard"], [f"{SCHEMA}.shards.shard"]),
        ForeignKeyConstraint(["moving_to"], [f"{SCHEMA}.shards.shard"]),
        CheckConstraint("length(agent_id) BETWEEN 1 AND 255", name="agent_id"),
        Index("agent_shards_moving_to_idx", "moving_to", postgresql_where=text("moving_to IS NOT NULL")),
        {"comment": "One row per agent, in the home of the shards: which shard holds it, whole."},
    )

    agent_id: Mapped[str] = host_id("The host's id for the agent.")
    shard: Mapped[str] = constant("The shard that holds it.")
    version: Mapped[int] = column("The version of the map when it was placed there.")
    moving_to: Mapped[str | None] = constant("The shard that it is moving to; null: it isn't moving.", nullable=True)
    placed_at: Mapped[datetime] = column("When it was placed there.", server_default=NOW)


class MovedAgentRow(Base):
    __tablename__ = "moved_agents"
    __table_args__ = (
        PrimaryKeyConstraint("agent_id"),
        UniqueConstraint("moved_key"),
        CheckConstraint("length(agent_id) BETWEEN 1 AND 255", name="agent_id"),
        {"comment": "One row per agent that has moved from this database to another shard, or is about to."},
    )

    agent_id: Mapped[str] = host_id("The host's id for the agent.")
    moved_key: Mapped[int] = column("Its key, which it keeps.")
    shard: Mapped[str] = constant("The shard that it moved to.")
    moved_at: Mapped[datetime] = column("When it was kept from changing here.", server_default=NOW)


def is_here(agent_key: Any) -> ColumnElement[bool]:
    """Whether the agent with that key isn't moving to another shard, nor has: then work of all agents would be refused.

    Who has moved is read once, so that the plan of the statement stays what it is without.
    """
    moved = func.array(select(MovedAgentRow.moved_key).scalar_subquery(), type_=ARRAY(BigInteger))
    apart: ColumnElement[bool] = agent_key != all_(moved)
    return apart
