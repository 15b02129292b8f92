"""What an export says of an observation besides itself: how often it was used, what was thought of it, and its links."""

from __future__ import annotations

from sqlalchemy import and_, func, select
from sqlalchemy.orm import aliased

from memory_sql.db.models import (
    LinkRow,
    ObservationFeedbackRow,
    ObservationRetrievalRow,
    ObservationRow,
    ObservationStateRow,
)

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


_l, _to = LinkRow, aliased(ObservationStateRow)
_link = func.jsonb_build_object(
    *("to_id", func.concat("o", _l.scope_id, "-", _l.to_seq), "kind", _l.kind, "label", _l.label),
    *("confidence", _l.confidence, "created_at", _l.created_at, "reinforced_at", _l.reinforced_at),
)
LINKS = (
    select(func.jsonb_agg(_link).aggregate_order_by(_l.to_seq, _l.kind, _l.label))
    .outerjoin(_to, and_(_to.agent_key == _l.agent_key, _to.scope_id == _l.scope_id, _to.seq == _l.to_seq))
    .where(*(getattr(_l, name) == getattr(_o, name) for name in ("agent_key", "scope_id", "seq")))
    .where(_to.withdrawn_by.is_(None))
    .correlate(_o)
    .scalar_subquery()
)
