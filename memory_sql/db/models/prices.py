"""What the models cost, as the operator says."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from sqlalchemy import CheckConstraint, Date, Numeric, PrimaryKeyConstraint
from sqlalchemy.orm import Mapped

from memory_sql.db.models.base import Base, column, constant


class PriceRow(Base):
    __tablename__ = "prices"
    __table_args__ = (
        PrimaryKeyConstraint("model", "valid_from"),
        CheckConstraint("model ~ '\\S'", name="model"),
        CheckConstraint("currency ~ '^[A-Z]{3}$'", name="currency"),
        CheckConstraint("input_per_million BETWEEN 0 AND 1000000", name="input_per_million"),
        CheckConstraint("output_per_million BETWEEN 0 AND 1000000", name="output_per_million"),
        {"comment": "One row per model and day from which on a price holds, as the operator says; of all agents."},
    )

    model: Mapped[str] = constant("The model, by the name that memory.runs has.")
    valid_from: Mapped[date] = column("From this day in UTC on, until the next one of the model.", Date)
    currency: Mapped[str] = constant("Three letters, as ISO 4217 has them: EUR.")
    input_per_million: Mapped[Decimal] = column("Price of a million tokens that are sent.", Numeric)
    output_per_million: Mapped[Decimal] = column("Price of a million tokens that come back.", Numeric)
