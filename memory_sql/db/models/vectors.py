"""Vectors of the texts of observations, by embedding model."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import CheckConstraint, Index, Integer, PrimaryKeyConstraint
from sqlalchemy.dialects.postgresql import BIT
from sqlalchemy.orm import Mapped, mapped_column

from memory_sql.db.models.base import FALSE, NOW, Base, column, constant, key_of, related, standing
from memory_sql.db.models.observations import FOUND_COLD, SOUGHT

if TYPE_CHECKING:
    from memory_sql.db.models.observations import ObservationRow


class ObservationVectorRow(Base):
    __tablename__ = "observation_vectors"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "scope_id", "seq", "model"),
        key_of("observations", "scope_id", "seq", goes_along=True),
        CheckConstraint(FOUND_COLD, name="cold"),
        Index(
            "observation_vectors_standing_idx",
            "agent_key",
            "scope_id",
            "standing",
            "cold",
            "seq",
            postgresql_where=SOUGHT,
        ),
        {
            "comment": "One row per observation and embedding model: the vector of its text, from which it can be recomputed."
        },
    )

    agent_key: Mapped[int] = column("The agent.")
    scope_id: Mapped[int] = column("The scope.")
    seq: Mapped[int] = column("The observation.", Integer)
    model: Mapped[str] = constant("Name and dimensions; only vectors of the same model can be compared.")
    bits: Mapped[Any | None] = mapped_column(
        BIT(varying=True),
        comment="The sign of each dimension; null: the model finds no direction in the text. A text can be guessed from it.",
        info={"text": "erase"},
    )
    made_at: Mapped[datetime] = column("When it was made.", server_default=NOW)
    standing: Mapped[str] = standing()
    cold: Mapped[bool] = column("Whether the observation is, which a trigger keeps here too.", server_default=FALSE)

    observation: Mapped[ObservationRow] = related()
