"""Who stands behind what a group knows. The caller has locked the agent."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Integer, and_, cast, exists, func, or_, select, true, union
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased
from sqlalchemy.types import ARRAY, Text

from memory_sql.db.arrays import are_among
from memory_sql.db.models import (
    ConversationRow,
    EvidenceRow,
    LineageRow,
    MemberRow,
    ObservationRow,
    ObservationStateRow,
    ScopeRow,
)
from memory_sql.db.participants import members_who_spoke
from memory_sql.db.repositories.lines import is_left, told_last, was_left_behind
from memory_sql.db.repositories.observations import IN_USE, ObservationKey
from memory_sql.domain.ids import owner_key

_m, _s = MemberRow, ScopeRow
_USER_ID = func.substr(_s.owner, 3)
_IS_THE_HOSTS = and_(EvidenceRow.user_id.is_(None), EvidenceRow.conversation_id.is_(None), EvidenceRow.run_id.is_(None))


@dataclass(frozen=True, slots=True)
class SupportRepository:
    _session: AsyncSession
    _agent_key: int

    async def strange_to(self, users: Sequence[str]) -> Sequence[int]:
        """The scopes of groups that hold something of a person with these ids, none of which is a member."""
        e, line, group, own, main = EvidenceRow, LineageRow, aliased(ScopeRow), aliased(ScopeRow), aliased(ScopeRow)
        held = union(
            select(e.scope_id).where(e.agent_key == self._agent_key, e.user_id.in_(users), e.withdrawn_by.is_(None)),
            select(line.scope_id)
            .join(own, and_(own.agent_key == line.agent_key, own.scope_id == line.source_scope_id))
            .where(line.agent_key == self._agent_key, own.owner.in_(_owners(users))),
        ).subquery("held")
        its_main = and_(main.agent_key == group.agent_key, main.owner == group.owner, main.name == "")
        theirs = and_(_m.agent_key == main.agent_key, _m.scope_id == main.scope_id, _m.user_id.in_(users))
        found = await self._session.scalars(
            select(group.scope_id)
            .select_from(held)
            .join(group, and_(group.agent_key == self._agent_key, group.scope_id == held.c.scope_id))
            .join(main, its_main)
            .where(group.kind == "group", ~exists().where(theirs, _m.left_at.is_(None)))
            .order_by(group.scope_id)
        )
        return found.all()

    async def only_of(self, scope_ids: Collection[int], users: Sequence[str]) -> tuple[ObservationKey, ...]:
        """Observations in these scopes that nobody supports once these users leave: they did, maybe with former members."""
        former = self._former(scope_ids, users)
        theirs = or_(_said(EvidenceRow.user_id.in_(users)), _made_in(_s.owner.in_(_owners(users))))
        return await self._keys(ObservationRow.scope_id.in_(scope_ids), theirs, ~_supported(former))

    async def without_support(self, keys: Collection[ObservationKey]) -> tuple[ObservationKey, ...]:
        """Those of these observations that only former members of their groups support."""
        former = self._former({scope_id for scope_id, _ in keys})
        o = ObservationRow
        theirs = or_(_said(_is_of(former, EvidenceRow.user_id)), _made_in(_is_of(former, _USER_ID)))
        return await self._keys(are_among((o.scope_id, o.seq), keys), theirs, ~_supported(former))

    async def gave_way_before(self, keys: Collection[ObservationKey]) -> dict[ObservationKey, int]:
        """What of these is active only since what had superseded it was left behind; with the number of that."""
        t, newer = ObservationStateRow, aliased(ObservationStateRow)
        after = cast(told_last(t, "after"), Integer)
        its = and_(newer.agent_key == t.agent_key, newer.scope_id == t.scope_id, newer.seq == after)
        found = await self._session.execute(
            select(t.scope_id, t.seq, newer.seq.label("after"))
            .join(newer, and_(its, is_left(newer)))
            .where(t.agent_key == self._agent_key, are_among((t.scope_id, t.seq), keys))
        )
        return {(row.scope_id, row.seq): row.after for row in found}

    def _former(self, scope_ids: Collection[int], leaving: Sequence[str] = ()) -> Any:
        given = (cast(sorted(scope_ids), ARRAY(BigInteger)), cast(list(leaving), ARRAY(Text)))
        found = func.memory.former_members(self._agent_key, *given)
        return select(found.table_valued("scope_id", "user_id", "kept_until")).cte("former")

    async def _keys(self, *conditions: ColumnElement[bool]) -> tuple[ObservationKey, ...]:
        """In use or possibly so again, in the order of the keys.

        What is superseded or quarantined may be again; what was given up is tried again. Not what was left behind before.
        """
        o, t = ObservationRow, ObservationStateRow
        may_be_taken_back = and_(t.status == "archived", t.resolved.is_not(None))
        gave_way = and_(t.status == "superseded", or_(t.superseded_by.is_not(None), t.follows))
        may_return = and_(or_(gave_way, t.status == "quarantined"), ~was_left_behind(t))
        found = await self._session.execute(
            select(o.scope_id, o.seq)
            .outerjoin(t, and_(t.agent_key == o.agent_key, t.scope_id == o.scope_id, t.seq == o.seq))
            .where(
                o.agent_key == self._agent_key,
                or_(IN_USE, may_return, may_be_taken_back, t.status == "given_up"),
                *conditions,
            )
            .order_by(o.scope_id, o.seq)
        )
        return tuple((row.scope_id, row.seq) for row in found)

    async def heard_by_one(self, users: Sequence[str]) -> tuple[ObservationKey, ...]:
        """What was stored in a group since two of its members had spoken there, where these are ids of one person.

        Only what nobody else supports; nobody else of the group took part, and the host didn't share the conversation.
        """
        o, c, main = ObservationRow, ConversationRow, aliased(ScopeRow)
        several = (
            select(_m.scope_id)
            .where(_m.agent_key == self._agent_key, _m.user_id.in_(users))
            .group_by(_m.scope_id)
            .having(func.count(_m.user_id.distinct()) > 1)
        )
        theirs = and_(main.agent_key == _s.agent_key, main.owner == _s.owner, main.name == "")
        scopes = await self._session.scalars(
            select(_s.scope_id).join(main, theirs).where(_s.agent_key == self._agent_key, main.scope_id.in_(several))
        )
        theirs, others = (
            or_(_said(said), _made_in(made))
            for said, made in (
                (EvidenceRow.user_id.in_(users), _s.owner.in_(_owners(users))),
                (or_(EvidenceRow.user_id.not_in(users), _IS_THE_HOSTS), _s.owner.not_in(_owners(users))),
            )
        )
        keys = await self._keys(o.scope_id.in_(scopes.all()), theirs, ~others)
        counted = members_who_spoke(self._agent_key, main)
        found = await self._session.execute(
            select(o.scope_id, o.seq)
            .join(_s, and_(_s.agent_key == o.agent_key, _s.scope_id == o.scope_id))
            .join(main, theirs)
            .join(c, and_(c.agent_key == o.agent_key, c.conversation_id == o.conversation_id))
            .join(counted, true())
            .where(o.agent_key == self._agent_key, are_among((o.scope_id, o.seq), keys))
            .where(o.source_kind == "formation", ~c.shared, counted.c.ids, counted.c.person)
            .order_by(o.scope_id, o.seq)
        )
        return tuple((row.scope_id, row.seq) for row in found)


def _owners(users: Sequence[str]) -> list[str]:
    return [owner_key("individual", user) for user in users]


def _supported(former: Any) -> ColumnElement[bool]:
    """Whether anybody stands behind an observation of a group but these former members (`memory.former_members`).

    The host's own statement counts as support, the agent's doesn't. What was propagated is supported by those from
    whose scopes it came. What an observation was lent (`repeated_seq`) supports that which lent it, which stands again.
    """
    user = EvidenceRow.user_id
    return or_(
        _said(or_(and_(user.is_not(None), ~_is_of(former, user)), _IS_THE_HOSTS)),
        _made_in(or_(_s.kind != "individual", ~_is_of(former, _USER_ID))),
    )


def _is_of(former: Any, user_id: Any) -> ColumnElement[bool]:
    """Whether this is the id of a former member for whom nothing keeps the observation."""
    o = ObservationRow
    is_kept = o.created_at <= former.c.kept_until
    those = and_(former.c.scope_id == o.scope_id, former.c.user_id == user_id)
    return exists().where(those, is_kept.is_not(True)).correlate(o, EvidenceRow, _s)


def _said(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Whether an observation has evidence of its own that meets the condition."""
    e, o = EvidenceRow, ObservationRow
    of_it = and_(e.agent_key == o.agent_key, e.scope_id == o.scope_id, e.seq == o.seq)
    own = and_(e.withdrawn_by.is_(None), e.repeated_seq.is_(None))
    return select(e.seq).where(of_it, own, condition).correlate(o).exists()


def _made_in(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Whether an observation was derived from one in a scope that meets the condition, and that isn't withdrawn."""
    line, o, t = LineageRow, ObservationRow, aliased(ObservationStateRow)
    of_it = and_(line.agent_key == o.agent_key, line.scope_id == o.scope_id, line.seq == o.seq)
    source = and_(_s.agent_key == line.agent_key, _s.scope_id == line.source_scope_id)
    its = and_(t.agent_key == line.agent_key, t.scope_id == line.source_scope_id, t.seq == line.source_seq)
    withdrawn = exists().where(its, t.withdrawn_by.is_not(None)).correlate(line)
    return select(line.seq).join(_s, source).where(of_it, condition, ~withdrawn).correlate(o).exists()
