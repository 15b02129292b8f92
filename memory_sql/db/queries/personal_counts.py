"""What an export says of an observation besides itself: how often it was used, what was thought of it, and its links.

Each is a value of `o`, the observation's row.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import aliased

from memory_sql.db.models import LinkRow, ObservationFeedbackRow, ObservationRetrievalRow, ObservationStateRow


def retrieved(o: Any) -> Any:
    r = ObservationRetrievalRow
    counts = (
        select(r.surface, func.sum(r.times).label("times"))
        .where(*_is_of(r, o))
        .group_by(r.surface)
        .correlate(o)
        .subquery("counts")
    )
    return select(func.jsonb_object_agg(counts.c.surface, counts.c.times)).correlate(o).scalar_subquery()


def feedback(o: Any) -> Any:
    f = ObservationFeedbackRow
    of_day = func.jsonb_build_object("day", f.day, "total", f.total, "times", f.times)
    return select(func.jsonb_agg(of_day).aggregate_order_by(f.day)).where(*_is_of(f, o)).correlate(o).scalar_subquery()


def links(o: Any) -> Any:
    k, to = LinkRow, aliased(ObservationStateRow)
    link = func.jsonb_build_object(
        *("to_id", func.concat("o", k.scope_id, "-", k.to_seq), "kind", k.kind, "label", k.label),
        *("confidence", k.confidence, "created_at", k.created_at, "reinforced_at", k.reinforced_at),
    )
    withdrawn = select(to.seq).where(
        to.agent_key == k.agent_key, to.scope_id == k.scope_id, to.seq == k.to_seq, to.withdrawn_by.is_not(None)
    )
    return (
        select(func.jsonb_agg(link).aggregate_order_by(k.to_seq, k.kind, k.label))
        .where(*_is_of(k, o), ~withdrawn.offset(0).exists())  # each by its key
        .correlate(o)
        .scalar_subquery()
    )


def _is_of(row: Any, o: Any) -> list[Any]:
    return [getattr(row, name) == getattr(o, name) for name in ("agent_key", "scope_id", "seq")]
