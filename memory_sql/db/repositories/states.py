"""The status of observations: every change with an event that says why. The caller has locked the scope, and
calls `refresh_due` at the end (rule 11): what is set aside is no longer pending, what is restored is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Any

from sqlalchemy import ColumnElement, and_, case, false, func, literal, null, or_, select, true, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.arrays import among, are_among, unnested
from memory_sql.db.models import EventRow, EvidenceRow, ObservationRow, ObservationStateRow, ScopeRow
from memory_sql.db.repositories.erasure import ForgettingRepository
from memory_sql.db.repositories.events import record_all
from memory_sql.db.repositories.lines import (
    LineRepository,
    gave_way_to_left,
    is_followed,
    is_quarantined_elsewhere,
    is_there,
    linked,
    was_left_behind,
)
from memory_sql.db.repositories.parts import whole_again
from memory_sql.db.repositories.repetitions import lending, repeating
from memory_sql.db.repositories.scopes import ScopeRepository, ScopeState, in_scope
from memory_sql.privacy import SENSITIVITIES

_o, _t, _e = ObservationRow, ObservationStateRow, EvidenceRow
_PRIVACY = {name: place for place, name in enumerate(SENSITIVITIES)}
_KEY = ("agent_key", "scope_id", "seq")


@dataclass(frozen=True, slots=True)
class StateRepository:
    _session: AsyncSession

    async def supersede(self, scope: ScopeState, by: Mapping[int, int], now: datetime, **cause: Any) -> list[int]:
        """Those of the observations that were active, each now superseded by the one that `by` names."""
        superseded = await self._set_aside(scope, "superseded", list(by), case(by, value=_o.seq), now) if by else {}
        details = ((seq, {"from": "active", "to": "superseded", "by": by[seq]}) for seq in superseded)
        await self._tell(scope, details, now, **cause)
        return list(superseded)

    async def give_way(self, scope: ScopeState, by: Mapping[int, int], now: datetime, **cause: Any) -> list[int]:
        """As `supersede`; what had superseded any of them, and is set aside, comes before the new one in its line."""
        if not by:
            return []
        newer, keeps = case(by, value=_o.seq), {"keeps_line": True}
        superseded = await self._set_aside(scope, "superseded", list(by), newer, now, **keeps)
        details = ((seq, {"from": "active", "to": "superseded", "by": by[seq]}) for seq in superseded)
        await self._tell(scope, details, now, **cause)
        apart = {seq: by[seq] for seq, link in superseded.items() if link != by[seq]}
        await LineRepository(self._session).append(scope, apart)
        return list(superseded)

    async def retire(self, scope: ScopeState, seqs: Sequence[int], now: datetime, **cause: Any) -> list[int]:
        """Those of the observations that were active: superseded by what another run has made of the same messages."""
        retired = await self._set_aside(scope, "superseded", seqs, null(), now)
        details = ((seq, {"from": "active", "to": "superseded", "why": "again"}) for seq in retired)
        await self._tell(scope, details, now, **cause)
        return list(retired)

    async def repeat(
        self, scope: ScopeState, same_as: Mapping[int, int], now: datetime, **cause: Any
    ) -> dict[int, int]:
        """Those of the observations that were superseded by the one that `same_as` names, which gains their evidence.

        So that one counts as said again, when they were said and as surely (`memory.count_said_again`).
        """
        same = await self.repeating(scope, same_as) if same_as else {}
        repeated = await self._set_aside(scope, "superseded", list(same), case(same, value=_o.seq), now) if same else {}
        if not repeated:
            return {}
        await self._session.execute(lending(scope, {seq: same[seq] for seq in repeated}, now))
        details = ((seq, {"from": "active", "to": "superseded", "by": same[seq], "why": "repeats"}) for seq in repeated)
        await self._tell(scope, details, now, **cause)
        return {seq: same[seq] for seq in repeated}

    async def repeating(self, scope: ScopeState, same_as: Mapping[int, int]) -> dict[int, int]:
        """Those that may stand behind the one that `same_as` names, since nothing is lost by it."""
        found = await self._session.execute(repeating(scope, same_as))
        return {row.seq: row.same_as for row in found}

    async def count_active(self, scope: ScopeState) -> int:
        found: int | None = await self._session.scalar(
            select(func.count())
            .select_from(_o)
            .outerjoin(_t, and_(in_scope(_t, scope), _t.seq == _o.seq))
            .where(in_scope(_o, scope), func.memory.in_use(_t.status))
        )
        return found or 0

    async def give_up(self, scope: ScopeState, seqs: Sequence[int], now: datetime, **cause: Any) -> list[int]:
        """Those of the observations that were active. No model can process them: they are kept, but not shown or absorbed."""
        given_up = await self._set_aside(scope, "given_up", seqs, null(), now, keeps_line=True)
        details = ((seq, {"from": "active", "to": "given_up"}) for seq in given_up)
        await self._tell(scope, details, now, **cause)
        return list(given_up)

    async def evict(
        self, scope: ScopeState, seqs: Sequence[int], now: datetime, why: str = "budget", **cause: Any
    ) -> list[int]:
        """Those of the observations that were active. They are kept, but no longer used."""
        evicted = await self._set_aside(scope, "evicted", seqs, null(), now)
        details = ((seq, {"from": "active", "to": "evicted", "why": why}) for seq in evicted)
        await self._tell(scope, details, now, **cause)
        return list(evicted)

    async def _set_aside(
        self,
        scope: ScopeState,
        status: str,
        seqs: Sequence[int],
        superseded_by: Any,
        now: datetime,
        *,
        keeps_line: bool = False,
    ) -> dict[int, int | None]:
        """Those that were active, in their order, and by what each is superseded; `keeps_line`: as before, if by anything."""
        chosen = select(
            literal(scope.agent_key), literal(scope.scope_id), _o.seq, literal(status), literal(now), superseded_by
        ).where(in_scope(_o, scope), among(_o.seq, seqs))
        changed = upsert(_t).from_select([*_KEY, "status", "status_at", "superseded_by"], chosen)
        set_: dict[str, Any] = {name: changed.excluded[name] for name in ("status", "status_at", "superseded_by")}
        if keeps_line:
            set_["superseded_by"] = func.coalesce(_t.superseded_by, changed.excluded.superseded_by)
        set_aside = await self._session.execute(
            changed.on_conflict_do_update(
                index_elements=_KEY, set_=set_, where=func.memory.in_use(_t.status)
            ).returning(_t.seq, _t.superseded_by)
        )
        return {row.seq: row.superseded_by for row in sorted(set_aside, key=lambda row: row.seq)}

    async def reinstate(
        self,
        scope: ScopeState,
        superseded: Sequence[tuple[int, int, datetime]],
        reviewed: Sequence[tuple[int, int]],
        now: datetime,
        **cause: Any,
    ) -> list[int]:
        """Those that are active again, of superseded observations: `(seq, superseded_by, status_at)`, unchanged since.

        Of what a person has `reviewed` it isn't known when: `(seq, superseded_by)`.
        """
        unchanged = or_(
            are_among((_t.seq, _t.superseded_by, _t.status_at), superseded),
            are_among((_t.seq, _t.superseded_by), reviewed),
        )
        wanted = bool(superseded or reviewed)
        return (await self._bring_back(scope, "superseded", unchanged, null(), now, **cause))[0] if wanted else []

    async def retry(self, scope: ScopeState, seqs: Sequence[int], now: datetime, **cause: Any) -> list[int]:
        """Those of the observations that work had given up; they are active again, or superseded by something newer."""
        which = among(_t.seq, seqs) & ~_t.follows
        back, newer, _ = await self._bring_back(scope, "given_up", which, _t.superseded_by, now, **cause)
        return sorted(back + newer)

    async def reopen(self, scope: ScopeState, seq: int, now: datetime, **cause: Any) -> None:
        """What is resolved is active again, or superseded by something newer."""
        which = (_t.seq == seq) & _t.resolved.is_not(None)
        await self._bring_back(scope, "archived", which, _t.superseded_by, now, **cause)

    async def follow(self, scope: ScopeState, seqs: Sequence[int], status: str, now: datetime, **cause: Any) -> None:
        """Sets derived observations to the status that their sources give them; active: as `reinstate` does."""
        if status == "active":
            await self._bring_back(scope, None, among(_t.seq, seqs) & _t.follows, _t.superseded_by, now, **cause)
            return
        before = await self._statuses(scope, seqs)
        rows = [
            {
                "agent_key": scope.agent_key,
                "scope_id": scope.scope_id,
                "seq": seq,
                "status": status,
                "status_at": now,
                "follows": True,
            }
            for seq in seqs
        ]
        changed = upsert(_t)
        columns = ("status", "status_at", "follows")
        await self._session.execute(
            changed.on_conflict_do_update(index_elements=_KEY, set_={name: changed.excluded[name] for name in columns}),
            rows,
            execution_options={"render_nulls": True},
        )
        details = ((seq, {"from": before.get(seq, "active"), "to": status, "why": "sources"}) for seq in seqs)
        await self._tell(scope, details, now, **cause)

    async def _statuses(self, scope: ScopeState, seqs: Sequence[int]) -> dict[int, str]:
        """Of those of these that have a row of their own."""
        found = await self._session.execute(select(_t.seq, _t.status).where(in_scope(_t, scope), among(_t.seq, seqs)))
        return {row.seq: row.status for row in found}

    async def stand_again(self, scope: ScopeState, now: datetime, **cause: Any) -> list[int]:
        """Those that are active again because all that superseded them is deleted, withdrawn, archived or quarantined.

        Not what says the same as something quarantined: that is set aside, wherever it is said again. Nor what was left
        behind with what it gave way to.
        """
        which = and_(~_t.follows, linked(_t), ~is_followed(scope), ~is_quarantined_elsewhere(scope))
        if scope.kind == "group":
            which = and_(which, or_(~gave_way_to_left(), ~was_left_behind(_t)))
        link = case((is_there(), _t.superseded_by))
        back, archived = list[int](), True
        while archived:  # what had given way to any of that may stand again too
            more, _, archived = await self._bring_back(scope, "superseded", which, link, now, tied=True, **cause)
            back += more
        return sorted(back)

    async def _bring_back(
        self,
        scope: ScopeState,
        status: str | None,
        which: Any,
        link: Any,
        now: datetime,
        *,
        tied: bool = False,
        **cause: Any,
    ) -> tuple[list[int], list[int], bool]:
        """Rule 9: of several that are the same only the newest is active, one that is active already among them.

        Nor does a value of a fact come back beside one to which it gives way (`giving_way`), nor what wasn't superseded
        (`status` None: not active for the sake of its sources) beside what has superseded it meanwhile. It is then
        superseded by that: when that is deleted it is active again; `tied`: not by what says the same, while what superseded
        it is known. `link`: what stays known as superseding it. What was left behind in a group meanwhile is archived, as
        if those had left later.

        Returns those that are active again, those that something newer supersedes instead, and whether any is archived.
        """
        why = {"why": "sources"} if status is None else {}
        is_overtaken = false() if status == "superseded" else is_followed(scope)
        left, after_left = (was_left_behind(_t), gave_way_to_left()) if scope.kind == "group" else (false(), false())
        its_own = select(_o.content_hash, _o.fact_key).where(in_scope(_o, scope), _o.seq == _t.seq).correlate(_t)
        own = its_own.offset(0).lateral()  # each by its key, whatever the planner thinks of how many there are
        found = await self._session.execute(
            select(_t.seq, own.c.content_hash, own.c.fact_key, _t.status, _t.superseded_by, is_overtaken.label("late"))
            .add_columns(is_there().label("there"), left.label("left"), after_left.label("after_left"))
            .join(own, true())
            .where(in_scope(_t, scope), true() if status is None else _t.status == status, which)
            .order_by(_t.seq.desc())
            .with_for_update(of=_t)
        )
        before = {row.seq: row for row in found}
        if not before:
            return [], [], False
        late = {row.seq: row.superseded_by for row in before.values() if row.late}
        behind = [row.seq for row in before.values() if row.left and not row.late]
        candidates = [(row.seq, row.content_hash) for row in before.values() if not (row.late or row.left)]
        taken = await active_among(self._session, scope, [digest for _, digest in candidates if digest is not None])
        back, likes, twins = _sort_out(candidates, taken)
        values = [(scope.scope_id, seq) for seq in back if before[seq].fact_key is not None]
        overtaken = await self.giving_way(scope.agent_key, values)
        newer = late | {key[1]: overtaken[key] for key in values if key in overtaken}
        older = {seq: by for (_, seq), by in overtaken.items() if seq not in newer}
        back = [seq for seq in back if seq not in newer]
        older |= {seq: by for seq, by in twins.items() if by not in newer}
        await self._session.execute(
            update(_t)
            .where(in_scope(_t, scope), among(_t.seq, back))
            .values(status="active", status_at=now, superseded_by=link, follows=False)
        )
        if status == "given_up":
            likes = {}  # stays given up
        if tied:  # to what may come back, and supersedes it then
            likes = {seq: by for seq, by in likes.items() if not before[seq].there}
        await self._archive(scope, behind, now)
        await self._supersede_instead(scope, likes, null(), now)
        await self._supersede_instead(scope, newer, link, now)
        whys = dict.fromkeys(likes, "twin") | dict.fromkeys(newer, "fact")
        whys |= {seq: "leave" if before[seq].left else "line" for seq in late}
        after = {row.seq: {"after": row.superseded_by} for row in before.values() if tied and row.after_left}
        details = [(seq, {"from": before[seq].status, "to": "active", **why, **after.get(seq, {})}) for seq in back]
        details += [(seq, {"from": before[seq].status, "to": "archived", "why": "leave"}) for seq in behind]
        details += [(seq, {"from": before[seq].status, "to": "superseded", "why": whys[seq]}) for seq in sorted(whys)]
        await self._tell(scope, details, now, **cause)
        await whole_again(self._session, scope, back, now, **cause)
        await self._give_way_at_last(scope, older, now, **cause)
        return back, sorted(newer), bool(behind)

    async def _archive(self, scope: ScopeState, seqs: Sequence[int], now: datetime) -> None:
        if not seqs:
            return
        values = {"status": "archived", "status_at": now, "superseded_by": None, "follows": False}
        await self._session.execute(update(_t).where(in_scope(_t, scope), among(_t.seq, seqs)).values(**values))
        await LineRepository(self._session).pass_over(scope, seqs)

    async def _give_way_at_last(self, scope: ScopeState, by: Mapping[int, int], now: datetime, **cause: Any) -> None:
        """Active values of facts that are older than what has come back; if the text holds any, it is to be rewritten."""
        cause.pop("version", None)  # which is what was done, not what follows from that
        if not await self.give_way(scope, by, now, **cause):
            return
        await ScopeRepository(self._session).take_lease(scope)
        held = select(_o.seq).join(ScopeRow, in_scope(ScopeRow, scope)).outerjoin(_t, _is_state(_t, scope))
        told = held.where(
            in_scope(_o, scope),
            among(_o.seq, list(by)),
            _o.lane == "absorb",
            _o.seq <= ScopeRow.done_seq,
            _t.repend.is_not(True),
        )
        if await self._session.scalar(select(told.exists())):
            await ForgettingRepository(self._session, scope.agent_key).await_rebuild([scope.scope_id])

    async def _supersede_instead(self, scope: ScopeState, by: Mapping[int, int], link: Any, now: datetime) -> None:
        """Each is superseded by another; by `link`, if there is one, and the other comes after that in its line."""
        if not by:
            return
        new = unnested((_t.seq, _t.superseded_by), by.items())
        changed = await self._session.execute(
            update(_t)
            .where(in_scope(_t, scope), _t.seq == new.c.seq)
            .values(
                status="superseded",
                status_at=case((_t.status == "superseded", _t.status_at), else_=now),
                superseded_by=func.coalesce(link, new.c.superseded_by),
                follows=False,
            )
            .returning(_t.seq, _t.superseded_by)
        )
        await LineRepository(self._session).append(scope, {seq: by[seq] for seq, kept in changed if kept != by[seq]})

    async def giving_way(
        self, agent_key: int, back: Collection[tuple[int, int]], going: Collection[tuple[int, int]] = ()
    ) -> dict[tuple[int, int], int]:
        """Of observations that are to be active again, and of active ones, the values of facts that give way; each to which.

        Of two values, one stored since the other was set aside, the older one does, by when it was said last. Those that were
        active side by side, as `reinstate` leaves them, stay so. `going`: what no longer counts as active.
        """
        if not back:
            return {}
        key, fact = (_o.scope_id, _o.seq), (_o.scope_id, _o.fact_key)
        stated = select(*fact).where(_o.agent_key == agent_key, _o.fact_key.is_not(None), are_among(key, back))
        facts = stated.distinct().subquery()
        is_back = are_among(key, back)
        left_at = (
            select(func.max(EventRow.created_at))
            .where(*(getattr(EventRow, name) == getattr(_o, name) for name in _KEY))
            .where(EventRow.kind == "status", EventRow.detail["from"].astext == "active")
            .scalar_subquery()
        )
        aside_at = case((is_back, func.coalesce(left_at, _t.status_at))).label("aside_at")
        stays = and_(func.memory.in_use(_t.status), ~are_among(key, going))
        found = await self._session.execute(
            select(*key, _o.fact_key, _o.said_at.label("observed_at"), _o.created_at, aside_at)
            .join(facts, and_(facts.c.scope_id == _o.scope_id, facts.c.fact_key == _o.fact_key))
            .outerjoin(_t, and_(*(getattr(_t, name) == getattr(_o, name) for name in _KEY)))
            .where(_o.agent_key == agent_key, or_(is_back, stays))
            .order_by(*fact, _o.said_at, _o.seq)
        )
        gives_way = dict[tuple[int, int], int]()
        for _, values in groupby(found, lambda row: (row.scope_id, row.fact_key)):
            gives_way |= that_give_way(list(values))
        return gives_way

    async def _tell(
        self, scope: ScopeState, details: Iterable[tuple[int, dict[str, Any]]], now: datetime, **cause: Any
    ) -> None:
        row = {"agent_key": scope.agent_key, "scope_id": scope.scope_id, "kind": "status", "created_at": now, **cause}
        await record_all(self._session, [{**row, "seq": seq, "detail": detail} for seq, detail in details])

    async def changed_by_version(self, scope: ScopeState, version: int) -> dict[str, int]:
        """How many observations got which status with this version of the scope's text, or kept it against its wish."""
        to = EventRow.detail["to"].astext
        found = await self._session.execute(
            select(to.label("status"), func.count().label("observations"))
            .where(in_scope(EventRow, scope), EventRow.seq.is_not(None))  # as the index says it
            .where(EventRow.version == version, EventRow.kind == "status")
            .group_by(to)
        )
        return {row.status: row.observations for row in found}


def _is_state(t: Any, scope: ScopeState) -> ColumnElement[bool]:
    return and_(in_scope(t, scope), t.seq == _o.seq)


def _sort_out(
    candidates: Iterable[tuple[int, bytes | None]], active: Mapping[bytes, int]
) -> tuple[list[int], dict[int, int], dict[int, int]]:
    """Which of `(seq, content_hash)`, newest first, may be active, for the others their duplicate, and for what is active and
    older than its duplicate that one.
    """
    back, likes, gives_way, taken = list[int](), dict[int, int](), dict[int, int](), dict(active)
    for seq, digest in candidates:
        if digest is not None and taken.get(digest, -1) > seq:
            likes[seq] = taken[digest]
            continue
        back.append(seq)
        if digest is not None:
            gives_way |= {taken[digest]: seq} if digest in taken else {}
            taken[digest] = seq
    return back, likes, gives_way


def that_give_way(values: Sequence[Any]) -> dict[tuple[int, int], int]:
    """Of the values of a fact, oldest first, those that give way, each to the newest of those to which it does.

    That is the first that was stored later, or set aside sooner, than all that are newer than it: a bisection finds it.
    """
    overtaken, stored, aside = dict[tuple[int, int], int](), list[Any](), list[Any]()
    for value in reversed(values):
        later = bisect_left(stored, True, key=partial(_stored_since, other=value))
        sooner = bisect_left(aside, True, key=partial(_stored_since, value))
        if newer := [*stored[later : later + 1], *aside[sooner : sooner + 1]]:
            overtaken[value.scope_id, value.seq] = max(newer, key=lambda one: (one.observed_at, one.seq)).seq
        if not stored or value.created_at > stored[-1].created_at:
            stored.append(value)
        if value.aside_at is not None and (not aside or value.aside_at < aside[-1].aside_at):
            aside.append(value)
    return overtaken


def _stored_since(one: Any, other: Any) -> bool:
    return other.aside_at is not None and one.created_at >= other.aside_at


async def active_among(session: AsyncSession, scope: ScopeState, digests: Sequence[bytes]) -> dict[bytes, int]:
    """Which of these texts an active observation of the scope has, and which one: the newest."""
    found = await session.execute(
        select(_o.content_hash, _o.seq)
        .outerjoin(_t, and_(in_scope(_t, scope), _t.seq == _o.seq))
        .where(
            in_scope(_o, scope),
            _o.lane == "absorb",
            among(_o.content_hash, digests),
            func.memory.in_use(_t.status),
        )
        .order_by(_o.seq)
    )
    return {row.content_hash: row.seq for row in found}
