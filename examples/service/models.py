"""The service's own table; memory_sql knows nothing of it."""

from __future__ import annotations

from sqlalchemy import Identity, Text, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    pass


class Booking(Base):
    __tablename__ = "bookings"
    __table_args__ = (UniqueConstraint("berth", name="bookings_berth_key"),)

    booking_id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    customer_id: Mapped[str] = mapped_column(Text)
    berth: Mapped[str] = mapped_column(Text)
