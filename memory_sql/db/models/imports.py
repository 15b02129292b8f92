"""Imports from other stores: each import, what became of each document, and what must not be imported again."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Identity, Index, Integer, PrimaryKeyConstraint
from sqlalchemy.orm import Mapped

from memory_sql.db.models.base import NO_PAIRS, NOW, Base, column, constant, host_id, key_of, one_of


class ImportRow(Base):
    __tablename__ = "imports"
    __table_args__ = (
        PrimaryKeyConstraint("import_id"),
        one_of("state", "running", "finished", "rolled_back"),
        {
            "comment": "One row per import from another store, for all agents: visible only to work that serves all agents."
        },
    )

    import_id: Mapped[int] = column("Internal key.", Identity(always=False))
    source: Mapped[str] = constant("What was imported: the name of a folder or database.")
    options: Mapped[dict[str, Any]] = constant("The options of the import.", server_default=NO_PAIRS)
    state: Mapped[str] = constant("running (or interrupted), finished or rolled_back.")
    accounts: Mapped[dict[str, Any]] = constant(
        "Per collection, the number of documents and what became of them; anomalies by code.",
        server_default=NO_PAIRS,
    )
    key_hash: Mapped[bytes] = column("Hash that identifies the key under which its references are hashed.")
    started_at: Mapped[datetime] = column("When it began.", server_default=NOW)
    finished_at: Mapped[datetime | None] = column("When it was complete; null: not yet.")
    rolled_back_at: Mapped[datetime | None] = column("When it was rolled back; null: it wasn't.")


class ImportRejectRow(Base):
    __tablename__ = "import_rejects"
    __table_args__ = (
        PrimaryKeyConstraint("import_id", "number"),
        one_of("outcome", "merged", "skipped", "rejected"),
        {"comment": "One row per document that an import merged, skipped or rejected, and why."},
    )

    import_id: Mapped[int] = column("The import.")
    number: Mapped[int] = column("1, 2, 3 … in the order of reading.")
    collection: Mapped[str] = constant("The document's collection, by its newer name.")
    legacy_id: Mapped[str | None] = constant("The document's id; null: it has no readable id, or was forgotten here.")
    part: Mapped[str | None] = constant("The file or collection that holds it; null: only its id is known.")
    place: Mapped[int | None] = column("Its place in that file or collection, from 1.")
    position: Mapped[int | None] = column("The byte at which it begins there.")
    outcome: Mapped[str] = constant("merged, skipped or rejected.")
    reason: Mapped[str] = constant("Why, in one word.")


class ImportedRow(Base):
    __tablename__ = "imported"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "legacy_ref", "scope_id"),
        Index("imported_seq_idx", "agent_key", "scope_id", "seq"),
        {"comment": "One row per document of another store, or sentence of one, and scope that holds it."},
    )

    agent_key: Mapped[int] = column("The agent.")
    scope_id: Mapped[int] = column("The scope.")
    legacy_ref: Mapped[str] = host_id(
        "Collection and id of the document, with a digest for a sentence of a text; or group and the group's id."
    )
    import_id: Mapped[int] = column("The import.")
    seq: Mapped[int | None] = column(
        "The observation made from it; null: it became the scope's text, or the group.", Integer
    )
    source_hash: Mapped[bytes] = column("SHA-256 of the text as it was imported.")
    stored_hash: Mapped[bytes] = column("SHA-256 of the text as it was stored.")
    ref_hash: Mapped[bytes] = column("HMAC of the reference, under a key kept outside the database.")


class ImportedMessageRow(Base):
    __tablename__ = "imported_messages"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "conversation_id", "number"),
        key_of("messages", "conversation_id", "number"),
        Index("imported_messages_ref_hash_idx", "agent_key", "ref_hash"),
        Index("imported_messages_import_id_idx", "agent_key", "import_id"),
        {"comment": "One row per message of another store and conversation that holds it."},
    )

    agent_key: Mapped[int] = column("The agent.")
    conversation_id: Mapped[str] = host_id("The conversation.")
    number: Mapped[int] = column("The message.")
    import_id: Mapped[int] = column("The import.")
    source_hash: Mapped[bytes] = column("SHA-256 of the text as it was imported.")
    stored_hash: Mapped[bytes] = column("SHA-256 of the text as it was stored.")
    ref_hash: Mapped[bytes] = column("HMAC of the reference, under a key kept outside the database.")


class ForgottenRefRow(Base):
    __tablename__ = "forgotten_refs"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "ref_hash"),
        key_of("agents"),
        {"comment": "One row per imported document that was forgotten, so that it isn't imported again."},
    )

    agent_key: Mapped[int] = column("The agent.")
    ref_hash: Mapped[bytes] = column("HMAC of its reference, under a key kept outside the database.")
    forgotten_at: Mapped[datetime] = column("When it was forgotten.", server_default=NOW)
