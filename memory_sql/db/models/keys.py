"""The keys of the HTTP server."""

from __future__ import annotations

from datetime import date, datetime

from sqlalchemy import ARRAY, CheckConstraint, Date, Identity, LargeBinary, PrimaryKeyConstraint, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from memory_sql.db.models.base import NOW, Base, column, constant, host_id


class ApiKeyRow(Base):
    __tablename__ = "api_keys"
    __table_args__ = (
        PrimaryKeyConstraint("key_id"),
        UniqueConstraint("secret_hash"),
        CheckConstraint("octet_length(secret_hash) = 32", name="secret_hash"),
        CheckConstraint("cardinality(agents) > 0", name="agents"),
        CheckConstraint("rights <@ '{read,write,forget,admin}'::text[] AND cardinality(rights) > 0", name="rights"),
        CheckConstraint("user_id IS NULL OR NOT 'admin' = ANY (rights)", name="user_id"),
        {"comment": "One row per key of the HTTP server, for all agents or some."},
    )

    key_id: Mapped[int] = column("Internal key.", Identity(always=True))
    secret_hash: Mapped[bytes] = column("SHA-256 of the secret, which is stored nowhere.")
    prefix: Mapped[str] = constant("The first characters of the secret, by which a person recognises it.")
    name: Mapped[str] = host_id("What the host calls it; empty once the user that it stood for was forgotten.")
    agents: Mapped[list[str] | None] = host_id("Ids of the agents that it is for; null: all.")
    rights: Mapped[list[str]] = constant("What it allows: read, write, forget, admin.")
    user_id: Mapped[str | None] = host_id("Id of the user that it stands for; null: the host.")
    created_at: Mapped[datetime] = column("When it was made.", server_default=NOW)
    created_by: Mapped[str | None] = host_id("Who made it.")
    expires_at: Mapped[datetime | None] = column("From when on it isn't accepted; null: never.")
    revoked_at: Mapped[datetime | None] = column("When it was revoked; null: it wasn't.")
    last_used_on: Mapped[date | None] = column("Day (UTC) of its last use.", Date)
    entered: Mapped[list[bytes]] = mapped_column(
        ARRAY(LargeBinary),
        server_default=text("'{}'"),
        comment="Links that have signed somebody in: when each ends, and a hash. Those that have ended go with the next one.",
    )
