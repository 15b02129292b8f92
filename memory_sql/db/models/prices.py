"""The prices of the models, as the operator sets them."""

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
        {"comment": "One row per model and day from which a price applies, set by the operator for all agents."},
    )

    model: Mapped[str] = constant("The model's name, as in memory.runs.")
    valid_from: Mapped[date] = column("First day (UTC) of the price; it applies until the model's next price.", Date)
    currency: Mapped[str] = constant("ISO 4217 code, for instance EUR.")
    input_per_million: Mapped[Decimal] = column("Price of a million input tokens.", Numeric)
    output_per_million: Mapped[Decimal] = column("Price of a million output tokens.", Numeric)
