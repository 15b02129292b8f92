"""Which pairs of observations a recheck has compared."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, get_args

from sqlalchemy import CheckConstraint, ForeignKeyConstraint, Index, Integer, PrimaryKeyConstraint
from sqlalchemy.orm import Mapped

from memory_sql.db.models.base import NOW, SCHEMA, Base, column, constant, key_of, one_of, related
from memory_sql.domain.rechecks import PairOutcome

if TYPE_CHECKING:
    from memory_sql.db.models.observations import ObservationRow


class RecheckedRow(Base):
    __tablename__ = "rechecked"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "scope_id", "seq", "other_seq"),
        key_of("observations", "scope_id", "seq", goes_along=True),
        ForeignKeyConstraint(
            ["agent_key", "scope_id", "other_seq"],
            [f"{SCHEMA}.observations.{name}" for name in ("agent_key", "scope_id", "seq")],
            ondelete="CASCADE",
        ),
        CheckConstraint("seq < other_seq", name="other_seq"),
        one_of("outcome", *get_args(PairOutcome)),
        Index("rechecked_other_seq_idx", "agent_key", "scope_id", "other_seq"),
        {"comment": "One row per pair of observations that a model was asked about, with its newest answer."},
    )

    agent_key: Mapped[int] = column("The agent.")
    scope_id: Mapped[int] = column("The scope of both.")
    seq: Mapped[int] = column("The observation with the lower number.", Integer)
    other_seq: Mapped[int] = column("The other one.", Integer)
    outcome: Mapped[str] = constant("contradicts, same or unrelated, as the model said, whatever came of it.")
    said_at: Mapped[datetime] = column(
        "When either had last been said then: once that is later, they are compared anew."
    )
    compared_at: Mapped[datetime] = column("When they were compared.", server_default=NOW)

    observation: Mapped[ObservationRow] = related(foreign_keys=[agent_key, scope_id, seq])
    other: Mapped[ObservationRow] = related(foreign_keys=[agent_key, scope_id, other_seq])
