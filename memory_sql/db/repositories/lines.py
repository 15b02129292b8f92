"""Lines of corrections: what superseded what, and whether that still counts. The caller has locked the scope."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, or_, select, true, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from memory_sql.db.arrays import among, unnested
from memory_sql.db.models import EventRow, ObservationRow, ObservationStateRow
from memory_sql.db.repositories.scopes import ScopeState, in_scope

_o, _t = ObservationRow, ObservationStateRow


@dataclass(frozen=True, slots=True)
class LineRepository:
    _session: AsyncSession

    async def append(self, scope: ScopeState, by: Mapping[int, int]) -> None:
        """Each of these supersedes the last of the line of the one that gave way to it; that one too, if it is in no line.

        What else is active since that last one is quarantined stands for itself from then on: the new one didn't replace it.
        """
        if not by:
            return
        ahead = await self._ahead(scope, {*by, *by.values()})
        links = appended(by, ahead)
        await self._link(scope, dict.fromkeys(await self.behind(scope, links)) | links)

    async def pass_on(self, scope: ScopeState, seqs: Collection[int], links: Mapping[int, int]) -> None:
        """What any of these has superseded is superseded by the next in its line that isn't one of these, if there is one.

        `links`: what is to supersede some of these.
        """
        if not seqs:
            return
        ahead, going = {**await self._ahead(scope, seqs), **links}, {*seqs}
        after = {seq: [one for one in line_of(ahead, seq)[1:] if one not in going] for seq in going}
        heirs = {seq: line[0] for seq, line in after.items() if line}
        if not heirs:
            return
        found = await self._session.execute(
            select(_t.seq, _t.superseded_by).where(
                in_scope(_t, scope), among(_t.superseded_by, heirs), ~among(_t.seq, going)
            )
        )
        await self._link(scope, {row.seq: heirs[row.superseded_by] for row in found})

    async def pass_over(self, scope: ScopeState, archived: Collection[int]) -> None:
        """What was left behind after it gave way to any of these, now archived, supersedes nothing: in its place they do."""
        line = select(_t.seq).where(in_scope(_t, scope), among(_t.superseded_by, archived), *_left_behind(_t))
        over, earlier = line.cte("over", recursive=True), aliased(_t)
        before = select(earlier.seq).where(
            in_scope(earlier, scope), earlier.superseded_by == over.c.seq, *_left_behind(earlier)
        )
        found = await self._session.scalars(select(over.union(before)))
        await self.pass_on(scope, found.all(), {})

    async def behind(self, scope: ScopeState, seqs: Collection[int]) -> dict[int, int]:
        """The active ones that these had superseded, or what these had superseded and is quarantined; each by which."""
        line = before_it(_t).where(in_scope(_t, scope), among(_t.superseded_by, seqs)).cte("behind", recursive=True)
        earlier = aliased(_t)
        passed = and_(in_scope(earlier, scope), earlier.superseded_by == line.c.seq, line.c.passed)
        behind = line.union(before_it(earlier).where(passed))
        found = await self._session.execute(select(behind).where(func.memory.in_use(behind.c.status)))
        return {row.seq: row.superseded_by for row in found}

    async def _link(self, scope: ScopeState, by: Mapping[int, int | None]) -> None:
        links = unnested((_t.seq, _t.superseded_by), by.items())
        await self._session.execute(
            update(_t).where(in_scope(_t, scope), _t.seq == links.c.seq).values(superseded_by=links.c.superseded_by)
        )

    async def _ahead(self, scope: ScopeState, seqs: Collection[int]) -> dict[int, int]:
        """What superseded these, what superseded that, and so on, whatever has become of it."""
        line = select(_t.seq, _t.superseded_by).where(in_scope(_t, scope), among(_t.seq, seqs), linked(_t))
        ahead, next_ = line.cte("ahead", recursive=True), aliased(_t)
        after = select(next_.seq, next_.superseded_by).where(
            in_scope(next_, scope), next_.seq == ahead.c.superseded_by, linked(next_)
        )
        found = await self._session.execute(select(ahead.union(after)))
        return {row.seq: row.superseded_by for row in found}


def linked(t: Any) -> ColumnElement[bool]:
    is_linked: ColumnElement[bool] = t.superseded_by.is_not(None)
    return is_linked


def is_passed(t: Any) -> ColumnElement[bool]:
    """Whether it is quarantined for its own sake, so that it supersedes nothing meanwhile."""
    return and_(t.status == "quarantined", ~t.follows)


def is_left(t: Any) -> ColumnElement[bool]:
    """Whether it is archived as the word of somebody who has left; what is resolved is archived, too, and still counts."""
    return and_(t.status == "archived", t.resolved.is_(None))


def was_left_behind(t: Any) -> ColumnElement[bool]:
    """Whether the last change to it is that those left who alone had said it; it may still be superseded, or quarantined."""
    return func.coalesce(told_last(t, "why") == "leave", False)


def told_last(t: Any, name: str) -> ColumnElement[str | None]:
    """What the event of the last change to its status says under this name."""
    v = aliased(EventRow)
    of_it = and_(v.agent_key == t.agent_key, v.scope_id == t.scope_id, v.seq == t.seq, v.kind == "status")
    told = select(v.detail[name].astext).where(of_it).order_by(v.event_id.desc()).limit(1)
    return told.correlate(t).scalar_subquery()


def before_it(t: Any) -> Select[Any]:
    return select(t.seq, t.superseded_by, t.status, is_passed(t).label("passed"))


def is_there() -> ColumnElement[bool]:
    """Whether what superseded it isn't gone, withdrawn, or archived, as the word of somebody who has left."""
    newer, its = aliased(_o), aliased(_t)
    is_its = and_(newer.agent_key == _t.agent_key, newer.scope_id == _t.scope_id, newer.seq == _t.superseded_by)
    same = _superseding(its)
    gone = select(its.seq).where(same, or_(its.status == "withdrawn", is_left(its))).correlate(_t)
    there = select(newer.seq).where(is_its).correlate(_t)
    return linked(_t) & there.offset(0).exists() & ~gone.offset(0).exists()  # each by its key


def gave_way_to_left() -> ColumnElement[bool]:
    """Whether what superseded it is archived, as the word of somebody who has left."""
    its = aliased(_t)
    return select(its.seq).where(_superseding(its), is_left(its)).correlate(_t).exists()


def _superseding(its: Any) -> ColumnElement[bool]:
    return and_(its.agent_key == _t.agent_key, its.scope_id == _t.scope_id, its.seq == _t.superseded_by)


def is_followed(scope: ScopeState) -> ColumnElement[bool]:
    """Whether in its line something comes after it that supersedes it: isn't gone, set aside for its own sake, archived."""
    last, before, left = aliased(_t), aliased(_t), aliased(_t)
    left_it = and_(in_scope(left, scope), left.seq == last.superseded_by, is_left(left))
    is_last = or_(~linked(last), select(left.seq).where(left_it).correlate(last).offset(0).exists())
    fallen = select(last.seq).where(in_scope(last, scope), is_passed(last), is_last).cte("fallen", recursive=True)
    its = select(before.seq).where(in_scope(before, scope), is_passed(before), before.superseded_by == fallen.c.seq)
    earlier = its.correlate(fallen).offset(0).lateral()  # by the index of what superseded others
    fallen = fallen.union(select(earlier.c.seq).select_from(fallen.join(earlier, true())))
    return is_there() & _t.superseded_by.not_in(select(fallen.c.seq))


def is_quarantined_elsewhere(scope: ScopeState) -> ColumnElement[bool]:
    """Whether something quarantined says the same."""
    own, like, its = aliased(_o), aliased(_o), aliased(_t)
    text = select(like.content_hash).where(in_scope(like, scope), like.seq == its.seq, like.lane == "absorb")
    said = text.correlate(its).offset(0).lateral()  # each by its key
    found = select(said.c.content_hash).select_from(its).join(said, true()).where(in_scope(its, scope), is_passed(its))
    mine = select(own.content_hash).where(in_scope(own, scope), own.seq == _t.seq).correlate(_t)
    return func.coalesce(mine.offset(0).scalar_subquery().in_(found), False)


def appended(by: Mapping[int, int], ahead: Mapping[int, int]) -> dict[int, int]:
    """What is to be superseded by what, so that each of `by` leads to the one that it names; `ahead`: what leads where.

    The last of its line does, unless that lies in the line of the new one: then it itself does.
    """
    links, changed = dict(ahead), dict[int, int]()
    for old, new in sorted(by.items()):
        line, others = line_of(links, old), line_of(links, new)
        if new in line:
            continue
        last = old if line[-1] in others else line[-1]
        links[last] = changed[last] = new
    return changed


def line_of(links: Mapping[int, int], seq: int) -> list[int]:
    line = [seq]
    while (after := links.get(line[-1])) is not None:
        line.append(after)
    return line


def _left_behind(t: Any) -> tuple[ColumnElement[bool], ...]:
    return t.status == "superseded", was_left_behind(t)
