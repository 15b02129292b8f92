"""What use observations were: how often each was shown, and what people thought of it, by day."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, get_args

from sqlalchemy import CheckConstraint, Date, Double, Index, Integer, PrimaryKeyConstraint
from sqlalchemy.orm import Mapped

from memory_sql.db.models.base import Base, column, constant, key_of, one_of, related
from memory_sql.domain.reading import Surface

if TYPE_CHECKING:
    from memory_sql.db.models.observations import ObservationRow


class ObservationRetrievalRow(Base):
    __tablename__ = "observation_retrievals"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "scope_id", "seq", "day", "surface"),
        key_of("observations", "scope_id", "seq", goes_along=True),
        one_of("surface", *get_args(Surface)),
        CheckConstraint("times > 0", name="times"),
        Index("observation_retrievals_day_idx", "day"),  # for deleting old days
        {
            "comment": "One row per observation, day (UTC) and surface: how often it was found and shown. It names no user.",
            "postgresql_with": {"fillfactor": 70},
        },
    )

    agent_key: Mapped[int] = column("The agent.")
    scope_id: Mapped[int] = column("The scope.")
    seq: Mapped[int] = column("The observation.", Integer)
    day: Mapped[date] = column("The day in UTC.", Date)
    surface: Mapped[str] = constant("What it was found for: context, search or digest.")
    times: Mapped[int] = column("How many of these showed it because a search had found it.")

    observation: Mapped[ObservationRow] = related()


class ObservationFeedbackRow(Base):
    __tablename__ = "observation_feedback"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "scope_id", "seq", "day"),
        key_of("observations", "scope_id", "seq", goes_along=True),
        CheckConstraint("times > 0", name="times"),
        CheckConstraint("abs(total) <= times", name="total"),
        Index("observation_feedback_day_idx", "day"),  # for deleting old days
        {
            "comment": "One row per observation and day (UTC): what was thought of it. It names no user.",
            "postgresql_with": {"fillfactor": 70},
        },
    )

    agent_key: Mapped[int] = column("The agent.")
    scope_id: Mapped[int] = column("The scope.")
    seq: Mapped[int] = column("The observation.", Integer)
    day: Mapped[date] = column("The day in UTC.", Date)
    total: Mapped[float] = column("The sum of what was said, each from -1 (of no use) to 1 (useful).", Double)
    times: Mapped[int] = column("How often something was said.", Integer)

    observation: Mapped[ObservationRow] = related()
