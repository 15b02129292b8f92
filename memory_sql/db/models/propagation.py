"""Lineage of what was propagated to wider scopes, and the decisions of the judge."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import CheckConstraint, ForeignKeyConstraint, Index, Integer, PrimaryKeyConstraint, text
from sqlalchemy.orm import Mapped

from memory_sql.db.models.base import NOW, SCHEMA, TRUE, Base, column, constant, key_of, one_of, related

if TYPE_CHECKING:
    from memory_sql.db.models.observations import ObservationRow
    from memory_sql.db.models.runs import RunRow
    from memory_sql.db.models.scopes import ScopeRow


class LineageRow(Base):
    __tablename__ = "lineage"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "scope_id", "seq", "source_scope_id", "source_seq"),
        key_of("observations", "scope_id", "seq"),
        ForeignKeyConstraint(
            ["agent_key", "source_scope_id", "source_seq"],
            [f"{SCHEMA}.observations.{name}" for name in ("agent_key", "scope_id", "seq")],
        ),
        key_of("runs", "run_id"),
        CheckConstraint("scope_id <> source_scope_id", name="source_scope_id"),
        Index("lineage_source_seq_idx", "agent_key", "source_scope_id", "source_seq"),
        {"comment": "One row per observation and source: an observation of a narrower scope from which it was made."},
    )

    agent_key: Mapped[int] = column("The agent.")
    scope_id: Mapped[int] = column("The scope of the observation that was made.")
    seq: Mapped[int] = column("The observation that was made.", Integer)
    source_scope_id: Mapped[int] = column("The scope of its source.")
    source_seq: Mapped[int] = column("Its source.", Integer)
    run_id: Mapped[int | None] = column("The run that made it; null: none.")
    created_at: Mapped[datetime] = column("When it was made.", server_default=NOW)
    whole: Mapped[bool] = column(
        "True: made from this source alone, and kept while one such source is left; false: merged from several.",
        server_default=TRUE,
    )

    observation: Mapped[ObservationRow] = related(foreign_keys=[agent_key, scope_id, seq])
    source: Mapped[ObservationRow] = related(foreign_keys=[agent_key, source_scope_id, source_seq])
    run: Mapped[RunRow | None] = related()


class JudgedRow(Base):
    __tablename__ = "judged"
    __table_args__ = (
        PrimaryKeyConstraint("agent_key", "source_scope_id", "source_seq", "target_scope_id"),
        ForeignKeyConstraint(
            ["agent_key", "source_scope_id", "source_seq"],
            [f"{SCHEMA}.observations.{name}" for name in ("agent_key", "scope_id", "seq")],
        ),
        ForeignKeyConstraint(
            ["agent_key", "target_scope_id"], [f"{SCHEMA}.scopes.{name}" for name in ("agent_key", "scope_id")]
        ),
        key_of("runs", "run_id"),
        CheckConstraint("source_scope_id <> target_scope_id", name="target_scope_id"),
        one_of("outcome", "propagated", "refused", "waiting", "held", "released"),
        CheckConstraint("seq IS NULL OR outcome = 'propagated'", name="seq"),
        Index("judged_seq_idx", "agent_key", "target_scope_id", "seq", postgresql_where=text("seq IS NOT NULL")),
        Index(
            "judged_held_idx",
            "agent_key",
            "source_scope_id",
            "source_seq",
            postgresql_where=text("outcome = 'held'"),
        ),
        {"comment": "One row per observation and wider scope for which it was judged, with the newest decision."},
    )

    agent_key: Mapped[int] = column("The agent.")
    source_scope_id: Mapped[int] = column("The scope of the observation that was judged.")
    source_seq: Mapped[int] = column("The observation that was judged.", Integer)
    target_scope_id: Mapped[int] = column("The scope for which it was judged.")
    outcome: Mapped[str] = constant(
        "propagated, refused, waiting (too few say so yet), held (for a person to review) or released (by a person)."
    )
    reason: Mapped[str] = constant("Why, in one word.")
    seq: Mapped[int | None] = column("The observation of the target that now says it; null: none.", Integer)
    run_id: Mapped[int | None] = column("The run in which it was judged; null: a person decided.")
    judged_at: Mapped[datetime] = column("When it was judged.", server_default=NOW)

    source: Mapped[ObservationRow] = related()
    target: Mapped[ScopeRow] = related()
    run: Mapped[RunRow | None] = related()
