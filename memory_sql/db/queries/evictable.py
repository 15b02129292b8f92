"""How many observations of each kind each scope has, and which of them may be evicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ARRAY, ColumnElement, Text, and_, cast, exists, func, or_, select, true
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.arrays import among
from memory_sql.db.models import HoldRow, ObservationRow, ObservationStateRow, ScopeRow
from memory_sql.db.repositories.observations import IN_USE, VERIFICATION
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
        is_protected = or_(
            func.coalesce(_o.fact_key == func.any(cast(list(keys), ARRAY(Text))), False),
            _o.tags.op("&&")(cast(list(tags), ARRAY(Text))),
            VERIFICATION == "disputed",
            _is_held(),
        )
        found = await self._session.execute(
            select(
                _o.seq,
                _o.kind,
                _o.fact_key,
                func.length(_o.content).label("characters"),
                _o.confidence,
                _o.said_at.label("observed_at"),
                _o.sensitivity,
                is_protected.label("is_protected"),
            )
            .join(_s, and_(_s.agent_key == _o.agent_key, _s.scope_id == _o.scope_id))
            .outerjoin(_t, _is_state())
            .where(self._counts(), _o.scope_id == scope_id, true() if seqs is None else among(_o.seq, seqs))
            .order_by(_o.seq)
        )
        return [
            Stored(**{**row, "kind": budget_kind(row["kind"], has_key=row["fact_key"] is not None)})
            for row in found.mappings()
        ]

    def _counts(self) -> ColumnElement[bool]:
        """The absorb lane only: a buffer has its own length."""
        return and_(_o.agent_key == self._agent_key, _o.lane == "absorb", IN_USE)


def _is_state() -> ColumnElement[bool]:
    return and_(_t.agent_key == _o.agent_key, _t.scope_id == _o.scope_id, _t.seq == _o.seq)


def _is_held() -> ColumnElement[bool]:
    is_any = exists().where(_h.agent_key == _o.agent_key, _h.released_at.is_(None))
    return and_(is_any, func.memory.is_held_observation(_o.agent_key, _o.scope_id, _o.seq))
