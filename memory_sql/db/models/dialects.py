"""How the servers of models take requests, as it was found out."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import PrimaryKeyConstraint
from sqlalchemy.orm import Mapped

from memory_sql.db.models.base import NO_TEXTS, NOW, Base, column, constant, one_of


class DialectRow(Base):
    __tablename__ = "dialects"
    __table_args__ = (
        PrimaryKeyConstraint("server", "model"),
        one_of("api", "responses", "chat"),
        one_of("output", "json_schema", "json_object", "text"),
        {"comment": "One row per server and model that takes requests otherwise than was tried first, for all agents."},
    )

    server: Mapped[str] = constant("The base URL of its API.")
    model: Mapped[str] = constant("The model's name, as in the settings.")
    api: Mapped[str] = constant("responses or chat.")
    output: Mapped[str] = constant("The form of answers that it takes: json_schema, json_object or text.")
    without: Mapped[list[str]] = constant(
        "What is left out of requests, since it was refused.", server_default=NO_TEXTS
    )
    found_at: Mapped[datetime] = column("When that was found out; after a month it is tried anew.", server_default=NOW)
