"""What use an observation was, for a person's export: how often it was shown, and what was thought of it."""

from __future__ import annotations

from sqlalchemy import func, select

from memory_sql.db.models import ObservationFeedbackRow, ObservationRetrievalRow, ObservationRow

_o = ObservationRow
_counts = (
    select(ObservationRetrievalRow.surface, func.sum(ObservationRetrievalRow.times).label("times"))
    .where(*(getattr(ObservationRetrievalRow, name) == getattr(_o, name) for name in ("agent_key", "scope_id", "seq")))
    .group_by(ObservationRetrievalRow.surface)
    .correlate(_o)
    .subquery("counts")
)
RETRIEVED = select(func.jsonb_object_agg(_counts.c.surface, _counts.c.times)).correlate(_o).scalar_subquery()

_f = ObservationFeedbackRow
_of_day = func.jsonb_build_object("day", _f.day, "total", _f.total, "times", _f.times)
FEEDBACK = (
    select(func.jsonb_agg(_of_day).aggregate_order_by(_f.day))
    .where(*(getattr(_f, name) == getattr(_o, name) for name in ("agent_key", "scope_id", "seq")))
    .correlate(_o)
    .scalar_subquery()
)
