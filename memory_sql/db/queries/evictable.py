"""How many observations of each kind each scope has, and which of them may be evicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ARRAY, ColumnElement, Text, and_, cast, exists, func, literal_column, or_, select, true
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from memory_sql.db.arrays import among, unnested
from memory_sql.db.models import HoldRow, ObservationRow, ObservationStateRow, ScopeRow
from memory_sql.domain.observations import budget_kind

_o, _t, _s, _h = ObservationRow, ObservationStateRow, ScopeRow, HoldRow


@dataclass(frozen=True, slots=True)
class Amount:
    """How many active observations of a kind a scope has, and how many characters."""

    scope_id: int
    kind: str
    items: int
    characters: int


@dataclass(frozen=True, slots=True)
class Stored:
    """An active observation without its text. `is_protected`: it stays, whatever the budget."""

    seq: int
    kind: str
    fact_key: str | None
    characters: int
    confidence: float | None
    observed_at: datetime
    sensitivity: str
    is_protected: bool


class BudgetRepository:
    def __init__(self, session: AsyncSession, agent_key: int) -> None:
        self._session = session
        self._agent_key = agent_key

    async def amounts(self, more_than: int) -> list[Amount]:
        """In the order of the scopes, one for each kind in a scope; observations with and without a fact key are separate.

        Only scopes that have ever had more than `more_than` observations are read.
        """
        large = await self._session.scalars(
            select(_s.scope_id).where(_s.agent_key == self._agent_key, _s.last_seq > more_than)
        )
        scope_ids = large.all()
        if not scope_ids:
            return []
        has_key = _o.fact_key.is_not(None)
        found = await self._session.execute(
            select(
                _o.scope_id,
                _o.kind,
                has_key.label("has_key"),
                func.count().label("items"),
                func.sum(func.length(_o.content)).label("characters"),
            )
            .where(self._counts(), among(_o.scope_id, scope_ids))
            .group_by(_o.scope_id, _o.kind, has_key)
            .order_by(_o.scope_id, _o.kind, has_key)
        )
        return [
            Amount(row.scope_id, budget_kind(row.kind, has_key=row.has_key), row.items, row.characters) for row in found
        ]

    async def stored(
        self, scope_id: int, keys: Sequence[str], tags: Sequence[str], seqs: Sequence[int] | None = None
    ) -> list[Stored]:
        """All of the scope or those, in the order of their numbers.

        Those with one of these keys or tags, disputed and held ones are protected.
        """
        o, of = _o, None
        if seqs is not None:  # each by its key: the scope's other observations aren't read
            of = unnested((_o.seq,), [(seq,) for seq in seqs])
            its = select(_o).where(_o.agent_key == self._agent_key, _o.scope_id == scope_id, _o.seq == of.c.seq)
            o = aliased(ObservationRow, its.correlate(of).offset(0).lateral())
        is_protected = or_(
            func.coalesce(o.fact_key == func.any(cast(list(keys), ARRAY(Text))), False),
            o.tags.op("&&")(cast(list(tags), ARRAY(Text))),
            _is_disputed(o),
            _is_held(o),
        )
        wanted = select(
            o.seq,
            o.kind,
            o.fact_key,
            func.length(o.content).label("characters"),
            o.confidence,
            o.said_at.label("observed_at"),
            o.sensitivity,
            is_protected.label("is_protected"),
        )
        there = wanted if of is None else wanted.select_from(of).join(o, true())
        found = await self._session.execute(there.where(self._counts(o), o.scope_id == scope_id).order_by(o.seq))
        return [
            Stored(**{**row, "kind": budget_kind(row["kind"], has_key=row["fact_key"] is not None)})
            for row in found.mappings()
        ]

    def _counts(self, o: type[ObservationRow] = _o) -> ColumnElement[bool]:
        """The absorb lane only: a buffer has its own length."""
        return and_(o.agent_key == self._agent_key, o.lane == "absorb", o.standing == literal_column("'active'"))


def _is_disputed(o: type[ObservationRow]) -> ColumnElement[bool]:
    mine = and_(_t.agent_key == o.agent_key, _t.scope_id == o.scope_id, _t.seq == o.seq)
    return select(_t.seq).where(mine, _t.verification == "disputed").correlate(o).offset(0).exists()  # each by its key


def _is_held(o: type[ObservationRow]) -> ColumnElement[bool]:
    is_any = exists().where(_h.agent_key == o.agent_key, _h.released_at.is_(None))
    return and_(is_any, func.memory.is_held_observation(o.agent_key, o.scope_id, o.seq))
