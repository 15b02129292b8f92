"""What says the same in other words: the statements by which the newer observation stands behind the older one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Insert, Select, and_, case, exists, func, insert, literal, or_, select
from sqlalchemy.orm import aliased

from memory_sql.db.arrays import among
from memory_sql.db.models import EvidenceRow, LineageRow, ObservationRow, ObservationStateRow
from memory_sql.db.repositories.scopes import ScopeState, in_scope
from memory_sql.privacy import SENSITIVITIES

_o, _t, _e = ObservationRow, ObservationStateRow, EvidenceRow
_PRIVACY = {name: place for place, name in enumerate(SENSITIVITIES)}


def repeating(scope: ScopeState, same_as: Mapping[int, int]) -> Select[int, int]:
    """`seq` and `same_as` of those that may stand behind the one that `same_as` names.

    Both are active and undisputed, the newer is no more private than the older and over on no other day, the host gave it
    neither key nor tags, and it was neither propagated nor what something was made of.
    """
    older, its, link = aliased(_o), aliased(_t), LineageRow
    is_source = select(link.seq).where(
        link.agent_key == _o.agent_key, link.source_scope_id == _o.scope_id, link.source_seq == _o.seq
    )
    return (
        select(_o.seq, older.seq.label("same_as"))
        .join(older, and_(in_scope(older, scope), older.seq == case(same_as, value=_o.seq)))
        .outerjoin(_t, and_(in_scope(_t, scope), _t.seq == _o.seq))
        .outerjoin(its, and_(in_scope(its, scope), its.seq == older.seq))
        .where(
            in_scope(_o, scope),
            among(_o.seq, list(same_as)),
            _o.source_kind != "propagation",
            _o.fact_key.is_(None),
            _o.tags == [],
            or_(_o.until.is_(None), _o.until == older.until),
            or_(~_o.confidential, older.confidential),
            or_(~_o.no_propagate, older.no_propagate),
            case(_PRIVACY, value=_o.sensitivity) <= case(_PRIVACY, value=older.sensitivity),
            *(func.memory.in_use(state.status) for state in (_t, its)),
            *(state.verification.is_distinct_from("disputed") for state in (_t, its)),
            ~is_source.exists(),
        )
    )


def lending(scope: ScopeState, same_as: Mapping[int, int], now: datetime) -> Insert:
    """Lends each older one the evidence of the newer: when that was said, and how surely.

    So the older one counts as said again (`memory.count_said_again`).
    """
    again = aliased(_e)  # of what was said again, each evidence says itself how sure it was
    is_said_again = exists().where(in_scope(again, scope), again.seq == _e.seq, again.said_at.is_not(None))
    lent = {
        "agent_key": literal(scope.agent_key),
        "scope_id": literal(scope.scope_id),
        "seq": case(same_as, value=_e.seq),
        "repeated_seq": _e.seq,
        "created_at": literal(now),
        "said_at": func.coalesce(_e.said_at, _o.observed_at),
        "confidence": func.coalesce(_e.confidence, case((~is_said_again, _o.confidence))),
        **{item.key: item for item in (_e.conversation_id, _e.number, _e.user_id, _e.run_id)},
    }
    found = (
        select(*lent.values())
        .join(_o, and_(in_scope(_o, scope), _o.seq == _e.seq))
        .where(in_scope(_e, scope), among(_e.seq, list(same_as)), _e.withdrawn_by.is_(None), _e.repeated_seq.is_(None))
    )
    return insert(_e).from_select([*lent], found)
