"""The harbour's own tables; memory_sql knows nothing of them."""

from __future__ import annotations

from datetime import date, datetime

from sqlalchemy import DateTime, ForeignKey, Identity, Text, UniqueConstraint, func
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "customers"

    customer_id: Mapped[str] = mapped_column(Text, primary_key=True)
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())


class Booking(Base):
    __tablename__ = "bookings"
    __table_args__ = (UniqueConstraint("berth", "night", name="bookings_berth_night_key"),)

    booking_id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    customer_id: Mapped[str] = mapped_column(ForeignKey("customers.customer_id", name="bookings_customer_id_fkey"))
    berth: Mapped[str] = mapped_column(Text)
    night: Mapped[date]
    boat: Mapped[str | None] = mapped_column(Text)
