"""What was brought over from another store: each run, what came of each document, and what mustn't come again."""

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
        {"comment": "One row per import of another store; of all agents, so only who serves all of them sees it."},
    )

    import_id: Mapped[int] = column("Our own key.", Identity(always=False))
    source: Mapped[str] = constant("What it was read from: the name of a folder or database.")
    options: Mapped[dict[str, Any]] = constant("How it was read, where there was a choice.", server_default=NO_PAIRS)
    state: Mapped[str] = constant("running (or broken off), finished or rolled_back.")
    accounts: Mapped[dict[str, Any]] = constant(
        "By collection how many documents there were, and what became of them; anomalies by code.",
        server_default=NO_PAIRS,
    )
    key_hash: Mapped[bytes] = column("By which the key of its references is known again.")
    started_at: Mapped[datetime] = column("When.", server_default=NOW)
    finished_at: Mapped[datetime | None] = column("When all of it was there.")
    rolled_back_at: Mapped[datetime | None] = column("When it was taken out again.")


class ImportRejectRow(Base):
    __tablename__ = "import_rejects"
    __table_args__ = (
        PrimaryKeyConstraint("import_id", "number"),
        one_of("outcome", "merged", "skipped", "rejected"),
        {"comment": "One row per document that an import didn't take over as one of its own, and why."},
    )

    import_id: Mapped[int] = column("The import.")
    number: Mapped[int] = column("1, 2, 3 … in the order in which they were read.")
    collection: Mapped[str] = constant("The document's collection, by its newer name.")
    legacy_id: Mapped[str | None] = constant(
        "The document's id; null: it has none that can be read, or was forgotten here."
    )
    part: Mapped[str | None] = constant("The file or collection that it stands in; null: known by its id alone.")
    place: Mapped[int | None] = column("Which document it is there, from 1.")
    position: Mapped[int | None] = column("At which byte it begins there.")
    outcome: Mapped[str] = constant("merged, skipped or rejected.")
    reason: Mapped[str] = constant("Why, in one word.")


class ImportedRow(Base):
    __tablename__ = "imported"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "legacy_ref", "scope_id"),
        Index("imported_seq_idx", "agent_key", "scope_id", "seq"),
        {"comment": "One row per document of another store, or sentence of one, and scope that has it."},
    )

    agent_key: Mapped[int] = column("The agent.")
    scope_id: Mapped[int] = column("The scope.")
    legacy_ref: Mapped[str] = host_id(
        "Which document: its collection and id; of a sentence of a text a digest, too; or group and its id."
    )
    import_id: Mapped[int] = column("The import.")
    seq: Mapped[int | None] = column("The observation that says it; null: the scope's text, or the group.", Integer)
    source_hash: Mapped[bytes] = column("SHA-256 of the text as it came.")
    stored_hash: Mapped[bytes] = column("SHA-256 of the text as it was stored.")
    ref_hash: Mapped[bytes] = column("HMAC of the reference, under a key outside of the database.")


class ImportedMessageRow(Base):
    __tablename__ = "imported_messages"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "conversation_id", "number"),
        key_of("messages", "conversation_id", "number"),
        Index("imported_messages_ref_hash_idx", "agent_key", "ref_hash"),
        Index("imported_messages_import_id_idx", "agent_key", "import_id"),
        {"comment": "One row per message of another store and conversation that has it."},
    )

    agent_key: Mapped[int] = column("The agent.")
    conversation_id: Mapped[str] = host_id("The conversation.")
    number: Mapped[int] = column("The message.")
    import_id: Mapped[int] = column("The import.")
    source_hash: Mapped[bytes] = column("SHA-256 of the text as it came.")
    stored_hash: Mapped[bytes] = column("SHA-256 of the text as it was stored.")
    ref_hash: Mapped[bytes] = column("HMAC of the reference, under a key outside of the database.")


class ForgottenRefRow(Base):
    __tablename__ = "forgotten_refs"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "ref_hash"),
        key_of("agents"),
        {"comment": "One row per imported document that was forgotten: it doesn't come again."},
    )

    agent_key: Mapped[int] = column("The agent.")
    ref_hash: Mapped[bytes] = column("HMAC of its reference, under a key outside of the database.")
    forgotten_at: Mapped[datetime] = column("When.", server_default=NOW)
