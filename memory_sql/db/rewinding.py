"""Going back to the texts before some versions of them, in one statement for all scopes, and what then may stand again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    DateTime,
    Integer,
    and_,
    bindparam,
    case,
    func,
    null,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import distinct_on

from memory_sql.db.models import ConsolidationRow, ObservationStateRow, ScopeRow

_c, _t = ConsolidationRow, ObservationStateRow


@dataclass(frozen=True, slots=True)
class Rewound:
    """The version and text to which a scope went back; `lets_stand`: something may stand again that had given way."""

    version: int
    text: str | None
    lets_stand: bool


@dataclass(frozen=True, slots=True)
class LetGo:
    """What undone versions had superseded or taken for a repetition: `(seq, by which, when)`; `held`: a person decided."""

    gave_way: tuple[tuple[int, int, datetime], ...]
    held: tuple[tuple[int, int], ...]
    repeated: tuple[tuple[int, int, datetime], ...]

    @property
    def any(self) -> bool:
        return bool(self.gave_way or self.held or self.repeated)


def let_go(rows: Sequence[Any], *, takes_repetitions: bool) -> LetGo:
    items = [(item, row.created_at) for row in rows for item in row.contradictions]
    repeated = [(item, row.created_at) for row in rows for item in row.repetitions] if takes_repetitions else []
    return LetGo(
        tuple((item["older"], item["newer"], at) for item, at in items if item["older"]),
        tuple((item["older"], item["newer"]) for item, _ in items if item.get("held")),
        tuple((item["newer"], item["older"], at) for item, at in repeated),
    )


def _rewound() -> Any:
    """One row per undone version, by scope the oldest first, with the version and the text to which the scope goes back."""
    agent, now = bindparam("of_agent", type_=BigInteger), bindparam("at", type_=DateTime(timezone=True))
    wanted = func.unnest(bindparam("scopes", type_=ARRAY(BigInteger)), bindparam("befores", type_=ARRAY(Integer)))
    given = wanted.table_valued("scope_id", "before", name="given").render_derived()
    is_undone = and_(_c.agent_key == agent, _c.scope_id == given.c.scope_id, _c.live, _c.version >= given.c.before)
    undone = (
        update(_c)
        .where(is_undone)
        .values(live=False, live_until=now)
        .returning(
            *(
                _c.scope_id,
                _c.version,
                _c.base,
                _c.from_seq,
                _c.extra_seqs,
                _c.contradictions,
                _c.repetitions,
                _c.created_at,
            )
        )
        .cte("undone")
    )
    first = (
        select(undone.c.scope_id, undone.c.base, undone.c.from_seq)
        .ext(distinct_on(undone.c.scope_id))
        .order_by(undone.c.scope_id, undone.c.version)
        .cte("first")
    )
    # What lies after the new end is pending anyway; before it, the extras become so by their state.
    extras = select(func.unnest(undone.c.extra_seqs)).where(undone.c.scope_id == first.c.scope_id)
    pended = (
        update(_t)
        .where(_t.agent_key == agent, _t.scope_id == first.c.scope_id)
        .where(or_(_t.seq > first.c.from_seq, _t.seq.in_(extras.correlate(first))))
        .values(repend=_t.seq <= first.c.from_seq)
        .cte("pended")
    )
    is_undo = bindparam("undo", type_=Boolean)
    moved = (
        update(ScopeRow)
        .where(ScopeRow.agent_key == agent, ScopeRow.scope_id == first.c.scope_id)
        .values(
            version=ScopeRow.version + 1,
            done_seq=first.c.from_seq,
            consolidated_at=now,
            held_seq=case((is_undo, ScopeRow.last_seq), else_=ScopeRow.held_seq),
            due_at=case((is_undo, null()), else_=ScopeRow.due_at),
            suspects=0,
        )
        .returning(ScopeRow.scope_id, ScopeRow.version)
        .cte("moved")
    )
    based = select(_c.content).where(_c.agent_key == agent, _c.scope_id == first.c.scope_id, _c.version == first.c.base)
    return (
        select(*undone.c, moved.c.version.label("new_version"), based.correlate(first).scalar_subquery().label("text"))
        .join_from(undone, first, first.c.scope_id == undone.c.scope_id)
        .join(moved, moved.c.scope_id == undone.c.scope_id)
        .order_by(undone.c.scope_id, undone.c.version)
        .add_cte(pended)
    )


REWOUND = _rewound()
