"""Rechecks: which scopes are due, what is compared with what, and what has been. The caller has the lease."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Integer, String, and_, cast, distinct, func, insert, literal, or_, select, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import DateTime

from memory_sql.config import Settings
from memory_sql.db.arrays import among
from memory_sql.db.models import ObservationRow, ObservationStateRow, RecheckedRow, RunRow, ScopeRow
from memory_sql.db.repositories.runs import RunKey
from memory_sql.db.repositories.scopes import ScopeState, in_scope, leased
from memory_sql.domain.rechecks import PairOutcome
from memory_sql.domain.scopes import AbsorbedObservation

_o, _t, _s, _r = ObservationRow, ObservationStateRow, ScopeRow, RecheckedRow
Pair = tuple[int, int]  # the lower number first
FEWEST = 5  # observations in use: with fewer there is nothing that no batch has met


@dataclass(frozen=True, slots=True)
class RecheckRepository:
    _session: AsyncSession

    async def make_due(self, scope: ScopeState, settings: Settings, now: datetime) -> None:
        """Once enough formations have stored something that the text has absorbed since the last recheck."""
        wait = timedelta(minutes=settings.recheck_minutes)
        formations = (
            select(func.count(distinct(_o.run_id)))
            .where(in_scope(_o, scope), _o.seq > _s.rechecked_seq, _o.seq <= _s.done_seq)
            .where(_o.source_kind == "formation", _o.lane == "absorb")
            .scalar_subquery()
        )
        await self._session.execute(
            update(_s)
            .where(in_scope(_s, scope), _s.recheck_at.is_(None), formations >= settings.recheck_formations)
            .values(recheck_at=func.greatest(literal(now, DateTime(timezone=True)), _s.rechecked_at + wait))
        )

    async def reached(self, scope: ScopeState) -> int | None:
        """How far the scope has been rechecked; None: too little of it is in use."""
        if len(await self._seqs(scope, FEWEST)) < FEWEST:
            return None
        reached = await self._session.scalar(select(_s.rechecked_seq).where(in_scope(_s, scope)))
        return min(reached or 0, scope.done_seq)  # less after an undo

    async def next_ones(self, scope: ScopeState, reached: int, most: int) -> tuple[int, list[AbsorbedObservation]]:
        """How far the scope is rechecked with these, and what is to be compared, by number.

        First what comes after `reached`, oldest first; if that is less than `most`, the newest of the rest too.
        """
        new = await self._seqs(scope, most, _o.seq > reached, order=_o.seq)
        old = await self._seqs(scope, most - len(new), _o.seq <= reached) if len(new) < most else []
        found = await self.observations(scope, [*new, *old])
        return new[-1] if len(new) == most else scope.done_seq, [found[seq] for seq in sorted(found)]

    async def _seqs(self, scope: ScopeState, most: int, *conditions: Any, order: Any = None) -> list[int]:
        asked = select(_o.seq).where(_absorbed(scope), *conditions)
        return list(await self._session.scalars(asked.order_by(_o.seq.desc() if order is None else order).limit(most)))

    async def observations(self, scope: ScopeState, seqs: Collection[int]) -> dict[int, AbsorbedObservation]:
        """Those of these that are in use, absorbed and not disputed, by number; `observed_at`: when each was said last."""
        found = await self._session.execute(
            select(_o.seq, _o.content, _o.said_at.label("observed_at"))
            .outerjoin(_t, and_(in_scope(_t, scope), _t.seq == _o.seq))
            .where(_absorbed(scope), among(_o.seq, seqs))
            .where(_t.repend.is_not(True), _t.verification.is_distinct_from("disputed"))
        )
        return {row.seq: AbsorbedObservation(*row) for row in found}

    async def near(self, scope: ScopeState, seqs: Collection[int], each: int) -> list[tuple[Pair, int]]:
        """Those nearest in meaning to each of these, with their place there, from 1."""
        given = (scope.agent_key, scope.scope_id, cast(sorted(seqs), ARRAY(Integer)), scope.done_seq, each)
        near = func.memory.neighbours(*given).table_valued("seq", "other_seq", "place")
        return [(_pair(row.seq, row.other_seq), row.place) for row in await self._session.execute(select(near))]

    async def compared(self, scope: ScopeState, seqs: Collection[int]) -> dict[Pair, datetime]:
        """Pairs with one of these that have been compared, and when either had been said last then."""
        found = await self._session.execute(
            select(_r.seq, _r.other_seq, _r.said_at).where(
                in_scope(_r, scope), or_(among(_r.seq, seqs), among(_r.other_seq, seqs))
            )
        )
        return {(row.seq, row.other_seq): row.said_at for row in found}

    async def begin(self, scope: ScopeState, now: datetime) -> RunKey | None:
        """A run under this lease; None: the scope has changed since it was claimed."""
        columns = {
            "agent_key": _s.agent_key,
            "scope_id": _s.scope_id,
            "fence": _s.fence,
            "kind": literal("recheck", String),
            "state": literal("running", String),
            "started_at": literal(now, DateTime(timezone=True)),
            "from_seq": _s.done_seq,
            "to_seq": _s.done_seq,
        }
        unchanged = select(*columns.values()).where(
            leased(scope), _s.version == scope.version, _s.epoch == scope.epoch, _s.done_seq == scope.done_seq
        )
        locked = unchanged.with_for_update(read=True, key_share=True)
        started = insert(RunRow).from_select([*columns], locked).returning(RunRow.run_id)
        run_id = await self._session.scalar(started)
        return None if run_id is None else RunKey(scope.agent_key, run_id, scope.fence)

    async def store(
        self, scope: ScopeState, outcomes: Mapping[Pair, tuple[PairOutcome, datetime]], now: datetime
    ) -> None:
        """What came of each pair, and when either of it had been said last."""
        if not outcomes:
            return
        rows = [
            {
                "agent_key": scope.agent_key,
                "scope_id": scope.scope_id,
                "seq": seq,
                "other_seq": other,
                "outcome": outcome,
                "said_at": said_at,
                "compared_at": now,
            }
            for (seq, other), (outcome, said_at) in sorted(outcomes.items())
        ]
        statement = upsert(_r)
        set_ = {name: statement.excluded[name] for name in ("outcome", "said_at", "compared_at")}
        await self._session.execute(
            statement.on_conflict_do_update(index_elements=["agent_key", "scope_id", "seq", "other_seq"], set_=set_),
            rows,
        )

    async def end(self, scope: ScopeState, values: Mapping[str, Any]) -> None:
        """Sets when the scope was rechecked, how far and when it is due again."""
        await self._session.execute(update(_s).where(in_scope(_s, scope)).values(**values))


def _pair(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)


def _absorbed(scope: ScopeState) -> Any:
    return and_(in_scope(_o, scope), _o.seq <= scope.done_seq, _o.lane == "absorb", _o.standing == "active")


def pairs_of(seq: int, others: Sequence[int]) -> list[Pair]:
    """One with each of the others but itself."""
    return [_pair(seq, other) for other in others if other != seq]
