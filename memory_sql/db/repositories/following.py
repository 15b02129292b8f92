"""Derived observations follow their sources: superseded, set aside and restored with them, by `memory.unsettled`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ARRAY, BigInteger, DateTime, Integer, and_, bindparam, exists, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.closures import TAINTED, Closure, Taken, reached_from
from memory_sql.db.locks import Locks, under_locks
from memory_sql.db.models import ScopeRow
from memory_sql.db.repositories.consolidations import ConsolidationRepository
from memory_sql.db.repositories.erasure import ForgettingRepository
from memory_sql.db.repositories.observations import ObservationKey
from memory_sql.db.repositories.scopes import ScopeRepository, ScopeState
from memory_sql.db.repositories.states import StateRepository

Changed = Collection[ObservationKey] | None
"""What has changed; None: anything may have."""


@dataclass(frozen=True, slots=True)
class Unsettled:
    """An observation whose status doesn't match that of its sources."""

    key: ObservationKey
    status: str
    becomes: str


@dataclass(frozen=True, slots=True)
class FollowingRepository:
    _session: AsyncSession
    _agent_key: int

    async def lock(self, scope_ids: Collection[int]) -> None:
        """These scopes and all in which something follows them. No scope may be locked before."""

        async def reached(locks: Locks) -> None:
            locks.need(await self.reach(scope_ids))

        await under_locks(self._session, self._agent_key, reached)

    async def lock_owned(self, owner: str, name: str) -> None:
        """As `lock`, the scope that is this owner's, if there is one."""
        s = ScopeRow
        owned = select(s.scope_id).where(s.agent_key == self._agent_key, s.owner == owner, s.name == name)
        if scope_id := await self._session.scalar(owned):
            await self.lock([scope_id])

    async def reach(self, scope_ids: Collection[int]) -> set[int]:
        """These, and the scopes with something derived from what they hold, on all levels."""
        return {*scope_ids, *await self._session.scalars(_REACH, self._given(scope_ids))}

    async def refresh(
        self, scope_id: int, keys: Collection[ObservationKey], of: Changed, threshold: int, now: datetime
    ) -> tuple[bool, bool]:
        """`refresh_due` of the scope; whether a text holds any of `keys`, and whether `settle` has anything to do."""
        given = self._given([scope_id]) | self._looked_at([scope_id], of) | Taken(tuple(keys)).arrays | {"scopes": []}
        row = (await self._session.execute(_REFRESH, {**given, "threshold": threshold, "now": now})).one()
        return row.holds, row.is_unsettled

    async def settle(
        self, scope_ids: Iterable[int], threshold: int, now: datetime, of: Changed = None, **cause: Any
    ) -> tuple[list[ObservationKey], list[int]]:
        """What lies in these scopes or was made of what does, and changed with its sources; and the scopes to be rewritten.

        The texts go back to before they took in what goes. The caller has locked the scopes by `lock`. `of`: all that has
        changed there; whatever else there is is left unread.
        """
        wanted, changed, tainted = {*scope_ids}, set[ObservationKey](), set[int]()
        while unsettled := await self._unsettled(wanted, of):
            back, lets_stand = await self._rewind([one.key for one in unsettled if one.status == "active"], now)
            tainted |= back
            await self._follow(unsettled, now, **cause)
            changed |= {one.key for one in unsettled}
            of = None if of is None or lets_stand else {*of, *changed}
            wanted |= {scope_id for scope_id, _ in changed} | tainted
        touched = sorted({scope_id for scope_id, _ in changed} | tainted)
        if not touched:
            return [], []
        withheld = await ForgettingRepository(self._session, self._agent_key).await_rebuild(sorted(tainted))
        await ScopeRepository(self._session).refresh_due(self._agent_key, touched, threshold, now)
        return sorted(changed), withheld

    async def _unsettled(self, scope_ids: Collection[int], of: Changed) -> list[Unsettled]:
        rows = await self._session.execute(_UNSETTLED, self._given(()) | self._looked_at(scope_ids, of))
        return [Unsettled((row.scope_id, row.seq), row.status, row.becomes) for row in rows]

    def _given(self, scope_ids: Collection[int]) -> dict[str, Any]:
        return {"agent_key": self._agent_key, "within": sorted(scope_ids)}

    @staticmethod
    def _looked_at(scope_ids: Collection[int], of: Changed) -> dict[str, Any]:
        if of is None:
            return {"of_scopes": sorted(scope_ids), "of_seqs": None}
        keys = sorted(of)
        return {"of_scopes": [scope_id for scope_id, _ in keys], "of_seqs": [seq for _, seq in keys]}

    async def _rewind(self, keys: Collection[ObservationKey], now: datetime) -> tuple[set[int], bool]:
        """The scopes whose texts held any of these, and whether something may stand again in one."""
        holding = Closure(Taken(tuple(keys)))
        tainted = await ForgettingRepository(self._session, self._agent_key).first_tainted((), holding)
        rewound = await ConsolidationRepository(self._session).rewind(self._agent_key, tainted, "retract", now)
        return {*tainted}, any(one.lets_stand for one in rewound.values())

    async def _follow(self, unsettled: Iterable[Unsettled], now: datetime, **cause: Any) -> None:
        by_scope = defaultdict[int, dict[str, list[int]]](lambda: defaultdict(list))
        for one in unsettled:
            scope_id, seq = one.key
            by_scope[scope_id][one.becomes].append(seq)
        for state in await self._states(by_scope):
            await ScopeRepository(self._session).take_lease(state)
            for status, seqs in by_scope[state.scope_id].items():
                await StateRepository(self._session).follow(state, seqs, status, now, **cause)

    async def _states(self, scope_ids: Collection[int]) -> list[ScopeState]:
        if not scope_ids:
            return []
        return await ScopeRepository(self._session).lock(self._agent_key, scope_ids=sorted(scope_ids))


_AGENT, _SCOPES = bindparam("agent_key", type_=BigInteger), bindparam("within", type_=ARRAY(BigInteger))
_unsettled = func.memory.unsettled(
    _AGENT, bindparam("of_scopes", type_=ARRAY(BigInteger)), bindparam("of_seqs", type_=ARRAY(Integer))
).table_valued("scope_id", "seq", "status", "becomes")
_UNSETTLED = select(_unsettled).order_by(_unsettled.c.scope_id, _unsettled.c.seq)
_tainted = TAINTED.subquery()
_old = func.unnest(bindparam("scope_ids", type_=ARRAY(BigInteger)), bindparam("seqs", type_=ARRAY(Integer)))
_given = _old.table_valued("scope_id", "seq", name="old").render_derived()
# No live text has anything behind its watermark: then its versions, which may be thousands, are left unread.
_may_hold = exists().where(
    ScopeRow.agent_key == _AGENT, ScopeRow.scope_id == _given.c.scope_id, ScopeRow.done_seq >= _given.c.seq
)
_REFRESH = select(
    func.memory.refresh_due(
        _AGENT, _SCOPES, bindparam("threshold", type_=Integer), bindparam("now", type_=DateTime(timezone=True))
    ),
    and_(_may_hold, exists(select(_tainted.c.scope_id))).label("holds"),
    exists(select(_unsettled.c.seq).select_from(_unsettled)).label("is_unsettled"),
)
_REACH = reached_from(select(func.unnest(_SCOPES).label("scope_id")), _AGENT)
