"""What leads from one observation to another of the same scope."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, get_args

from sqlalchemy import CheckConstraint, Double, ForeignKeyConstraint, Index, Integer, PrimaryKeyConstraint, text
from sqlalchemy.orm import Mapped

from memory_sql.db.models.base import NOW, SCHEMA, Base, column, constant, erase, key_of, one_of, related
from memory_sql.domain.reading import LinkKind

if TYPE_CHECKING:
    from memory_sql.db.models.observations import ObservationRow

_TO = ("agent_key", "scope_id", "to_seq")


class LinkRow(Base):
    __tablename__ = "links"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "scope_id", "seq", "to_seq", "kind", "label"),
        key_of("observations", "scope_id", "seq", goes_along=True),
        ForeignKeyConstraint(
            _TO, [f"{SCHEMA}.observations.{name}" for name in ("agent_key", "scope_id", "seq")], ondelete="CASCADE"
        ),
        one_of("kind", *get_args(LinkKind)),
        CheckConstraint("CASE WHEN kind = 'entity' THEN seq > to_seq ELSE seq < to_seq END", name="to_seq"),
        CheckConstraint("length(label) <= 100", name="label"),
        CheckConstraint("weight > 0 AND weight <= 1", name="weight"),
        CheckConstraint("confidence BETWEEN 0 AND 1", name="confidence"),
        Index("links_to_seq_idx", *_TO, "seq"),
        Index(
            "links_charged_until_idx",
            text("greatest(created_at, reinforced_at, charged_until)"),
            postgresql_where=text("confidence IS NULL OR confidence > 0.1"),  # what may still lose some
        ),
        {
            "comment": "One row per link: what two observations of a scope have in common, for searches.",
            "postgresql_with": {"fillfactor": 80},
        },
    )

    agent_key: Mapped[int] = column("The agent.")
    scope_id: Mapped[int] = column("The scope.")
    seq: Mapped[int] = column("The observation from which it leads.", Integer)
    to_seq: Mapped[int] = column(
        "The observation to which it leads: of an entity the older one, else the newer one.", Integer
    )
    kind: Mapped[str] = constant(
        "entity (both name the same, or are about the same user), time (said after it, in the same conversation) or cause"
        " (follows from it, by its words)."
    )
    label: Mapped[str] = erase(
        "Of an entity its name, in lower case, or empty if both are about the same user; of a cause the words that say so."
    )
    weight: Mapped[float] = column("Above 0, up to 1: what it passes on.", Double, server_default=text("1"))
    confidence: Mapped[float | None] = column(
        "0 to 1: how sure it is; null: it was never seen again, nor has it lost any, which counts as 1.", Double
    )
    created_at: Mapped[datetime] = column("When it was made.", server_default=NOW)
    reinforced_at: Mapped[datetime | None] = column("When it was last seen again; null: never.")
    charged_until: Mapped[datetime | None] = column(
        "Up to when its confidence has been reduced for its age; null: not since it was last seen."
    )

    observation: Mapped[ObservationRow] = related(
        primaryjoin="and_(ObservationRow.agent_key == foreign(LinkRow.agent_key),"
        " ObservationRow.scope_id == foreign(LinkRow.scope_id), ObservationRow.seq == foreign(LinkRow.seq))"
    )
    leads_to: Mapped[ObservationRow] = related(
        primaryjoin="and_(ObservationRow.agent_key == foreign(LinkRow.agent_key),"
        " ObservationRow.scope_id == foreign(LinkRow.scope_id), ObservationRow.seq == foreign(LinkRow.to_seq))"
    )
