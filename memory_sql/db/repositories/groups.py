"""Groups and their members: one row per period of membership. Written under the agent's and the group's row locks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    Select,
    and_,
    any_,
    bindparam,
    cast,
    exists,
    func,
    or_,
    select,
    true,
    union,
    update,
)
from sqlalchemy.dialects.postgresql import array, distinct_on
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased
from sqlalchemy.types import ARRAY, Text

from memory_sql.config.kinds import Sharing
from memory_sql.db.arrays import are_among
from memory_sql.db.direct import ask
from memory_sql.db.models import (
    ConversationRow,
    EvidenceRow,
    LineageRow,
    MemberRow,
    MessageRow,
    ObservationRow,
    ObservationStateRow,
    PromptRow,
    ScopeRow,
)
from memory_sql.db.participants import members_who_spoke, took_part
from memory_sql.db.repositories.aliases import user_ids
from memory_sql.db.repositories.lines import is_left, told_last, was_left_behind
from memory_sql.db.repositories.observations import IN_USE, ObservationKey
from memory_sql.domain.groups import Group, Member, MemberSource
from memory_sql.domain.ids import owner_key

_m, _s = MemberRow, ScopeRow
_GROUP_ID = func.substr(_s.owner, 3).label("group_id")
_USER_ID = func.substr(_s.owner, 3)
_IS_THE_HOSTS = and_(EvidenceRow.user_id.is_(None), EvidenceRow.conversation_id.is_(None), EvidenceRow.run_id.is_(None))
_MEMBER = (_GROUP_ID, _m.user_id, _m.source, _m.joined_at, _m.left_at)


_p = PromptRow
_EXTRACTION_PROMPT = (  # the scope's newest one, as it applies
    select(_p.mode)
    .where(_p.agent_key == _s.agent_key, _p.scope_id == _s.scope_id, _p.name == "extraction")
    .order_by(_p.version.desc())
    .limit(1)
    .correlate(_s)
    .scalar_subquery()
)


@dataclass(frozen=True, slots=True)
class GroupRepository:
    _session: AsyncSession
    _agent_key: int

    async def get(self, group_id: str) -> Group | None:
        found = await self.list(_s.owner == owner_key("group", group_id))
        return found[0] if found else None

    async def list(self, *conditions: Any) -> list[Group]:
        """In the order of their ids; a group is represented by its main scope."""
        open_ones = select(func.count()).where(_is_of_scope(_m), _m.left_at.is_(None)).correlate(_s)
        found = await self._session.execute(
            select(
                _s.scope_id,
                _GROUP_ID,
                _s.display_name,
                open_ones.scalar_subquery().label("members"),
                _s.created_at,
                _s.sharing,
            )
            .where(_s.agent_key == self._agent_key, _s.kind == "group", _s.name == "", *conditions)
            .order_by(_s.owner)
        )
        return [Group(**row) for row in found.mappings()]

    async def of_user(self, user_id: str) -> Sequence[Group]:
        """The groups that the user belongs to, by any of their ids."""
        return await self.list(_holds(self._agent_key, user_id))

    async def taking_from(self, user_id: str, sharing: Sharing, most: int) -> Sequence[str]:
        """See the function of this name."""
        given = {"agent_key": self._agent_key, "user_id": user_id, "sharing": sharing, "most": most}
        return (await self._session.scalars(TAKING_FROM, given)).all()

    async def members_among(self, scope_ids: Collection[int], users: Collection[str]) -> dict[int, frozenset[str]]:
        """Which of these users belong to each of the group scopes, by any of their ids (as for reading)."""
        given = {"agent": self._agent_key, "scopes": list(scope_ids), "users": list(users)}
        found = await ask(self._session, _MEMBERS_AMONG, given)
        return {row.scope_id: frozenset(row.users) for row in found}

    async def members_named(self, owners: Sequence[str], most: int, but: Collection[str] = ()) -> dict[str, str]:
        """Names for the members of these groups, by their ids: the name they last spoke under, else the id; at most `most`.

        Those who have spoken come first. Each person has one of their ids, and none of the users `but` are included.
        """
        given = {"agent": self._agent_key, "owners": list(owners), "users": list(but), "most": most}
        found = await ask(self._session, _MEMBERS_NAMED, given)
        return {row.user_id: row.name or row.user_id for row in found}

    async def heard_by(self, scope_ids: Collection[int], users: Collection[str]) -> set[int]:
        """The group scopes with at least two members among these users; several ids of one person count once."""
        if not scope_ids or len(users) < 2:
            return set()
        given = {"agent": self._agent_key, "scopes": list(scope_ids), "users": list(users)}
        return {row.scope_id for row in await ask(self._session, _HEARD_BY, given)}

    async def name(self, scope_id: int, display_name: str) -> None:
        await self._session.execute(
            update(_s).where(_s.agent_key == self._agent_key, _s.scope_id == scope_id).values(display_name=display_name)
        )

    async def share(self, scope_id: int, sharing: str | None) -> None:
        await self._session.execute(
            update(_s).where(_s.agent_key == self._agent_key, _s.scope_id == scope_id).values(sharing=sharing)
        )

    async def members(self, scope_id: int, as_of: datetime | None = None) -> Sequence[Member]:
        """In the order of their ids; for a past moment, those who were members then."""
        present: ColumnElement[bool] = _m.left_at.is_(None)
        if as_of is not None:
            present = and_(_m.joined_at <= as_of, or_(present, _m.left_at > as_of))
        return await self._members(scope_id, present)

    async def member(self, scope_id: int, user_id: str) -> Member | None:
        found = await self._members(scope_id, _m.left_at.is_(None), _m.user_id == user_id)
        return found[0] if found else None

    async def _members(self, scope_id: int, *conditions: Any) -> Sequence[Member]:
        found = await self._session.execute(
            select(*_MEMBER)
            .join(_s, _is_of_scope(_m))
            .where(_m.agent_key == self._agent_key, _m.scope_id == scope_id, *conditions)
            .order_by(_m.user_id, _m.joined_at)
        )
        return [Member(**row) for row in found.mappings()]

    async def join(self, scope_id: int, user_id: str, source: MemberSource, now: datetime) -> None:
        """Nobody joins earlier than they left. If a message has made the user a member meanwhile, that membership stays."""
        left = select(func.max(_m.left_at)).where(
            _m.agent_key == self._agent_key, _m.scope_id == scope_id, _m.user_id == user_id
        )
        since = func.greatest(now, left.scalar_subquery() + timedelta(microseconds=1))
        await self._session.execute(
            upsert(_m)
            .values(agent_key=self._agent_key, scope_id=scope_id, user_id=user_id, source=source, joined_at=since)
            .on_conflict_do_nothing()
        )

    async def last_left(self, scope_id: int, users: Collection[str]) -> datetime | None:
        """When these users last left; None: none of them ever did."""
        left: datetime | None = await self._session.scalar(
            select(func.max(_m.left_at)).where(
                _m.agent_key == self._agent_key, _m.scope_id == scope_id, _m.user_id.in_(users)
            )
        )
        return left

    async def is_member(self, scope_id: int, users: Collection[str]) -> bool:
        """Whether any of these ids is a member."""
        found = await self._session.scalar(
            select(_m.user_id)
            .where(
                _m.agent_key == self._agent_key,
                _m.scope_id == scope_id,
                _m.user_id.in_(users),
                _m.left_at.is_(None),
            )
            .limit(1)
        )
        return found is not None

    async def leave(self, scope_id: int, users: Sequence[str], now: datetime, *, keep: bool) -> None:
        """Ends the membership of all these ids. `memory.add_messages` doesn't let them in again with a late message."""
        await self._session.execute(
            update(_m)
            .where(
                _m.agent_key == self._agent_key,
                _m.scope_id == scope_id,
                _m.user_id.in_(users),
                _m.left_at.is_(None),
            )
            .values(left_at=func.greatest(now, _m.joined_at), kept=keep)
        )

    async def end_keeping(self, scope_id: int, users: Sequence[str]) -> bool:
        """Nothing that these ids have contributed stays for their sake any more, whenever they had left; whether it did."""
        ended = await self._session.scalars(
            update(_m)
            .where(_m.agent_key == self._agent_key, _m.scope_id == scope_id, _m.user_id.in_(users), _m.kept)
            .values(kept=False)
            .returning(_m.user_id)
        )
        return bool(ended.all())

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

    async def scope_ids(self, group_id: str) -> Sequence[int]:
        """The group's main scope and additional ones, the main one first. Empty: there is no such group."""
        found = await self._session.execute(
            select(_s.scope_id, _s.name)
            .where(_s.agent_key == self._agent_key, _s.owner == owner_key("group", group_id))
            .order_by(_s.name, _s.scope_id)
        )
        scopes = found.all()
        return [row.scope_id for row in scopes] if scopes and scopes[0].name == "" else []


def _last_heard(agent_key: Any, user_id: Any) -> Any:
    """The name under which a user last spoke in the conversation in which they last took part."""
    c, message = ConversationRow, MessageRow
    last = (
        select(c.conversation_id)
        .where(took_part(agent_key, array([user_id])))
        .order_by(c.last_activity_at.desc())
        .limit(1)
        .correlate(MemberRow)
    )
    return (
        select(message.speaker)
        .where(
            message.agent_key == agent_key,
            message.conversation_id == last.scalar_subquery(),
            message.user_id == user_id,
            message.speaker.is_not(None),
        )
        .order_by(message.number.desc())
        .limit(1)
        .correlate(MemberRow)
        .scalar_subquery()
    )


def _is_of_scope(member: Any) -> Any:
    return and_(member.agent_key == _s.agent_key, member.scope_id == _s.scope_id)


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


def _holds(agent_key: Any, user_id: Any) -> ColumnElement[bool]:
    ids = user_ids(agent_key, user_id)
    return exists().where(_is_of_scope(_m), _m.left_at.is_(None), _m.user_id.in_(select(ids.c.user_id)))


def taking_from(agent_key: Any, user_id: Any) -> Select[Any]:
    """The ids of the user's groups to which what they say may be proposed, oldest first, at most `most`.

    Without groups that are extracted in a call of their own (`ScopeState.is_isolated`): each would take another call.
    `sharing`: the agent's setting.
    """
    return (
        select(_GROUP_ID)
        .where(
            _s.agent_key == agent_key,
            _s.kind == "group",
            _s.name == "",
            _s.is_active,
            _s.extraction_mode != "isolated",
            _s.extraction_model.is_(None),
            _EXTRACTION_PROMPT.is_distinct_from("override"),
            func.coalesce(_s.sharing, bindparam("sharing", type_=Text)) != "off",
            _holds(agent_key, user_id),
        )
        .order_by(_s.scope_id)
        .limit(bindparam("most", type_=BigInteger))
    )


_AGENT, _USERS = bindparam("agent", type_=BigInteger), bindparam("users", type_=ARRAY(Text))
_asked = func.unnest(_USERS).table_valued("user_id", name="asked").render_derived()


def _members_among(*shown: Any) -> Select[Any]:
    """By scope, of those asked about who belong to it."""
    ids = func.memory.user_ids(_AGENT, _asked.c.user_id).table_valued("user_id", name="ids").lateral()
    scopes = bindparam("scopes", type_=ARRAY(BigInteger))
    return (
        select(_m.scope_id, *shown)
        .select_from(_asked)
        .join(ids, true())
        .join(_m, _m.user_id == ids.c.user_id)
        .where(_m.agent_key == _AGENT, _m.scope_id == any_(scopes), _m.left_at.is_(None))
        .group_by(_m.scope_id)
    )


def _members_named() -> Select[Any]:
    group, own = aliased(ScopeRow), aliased(ScopeRow)
    other = func.unnest(_USERS).column_valued("user_id")
    person = func.memory.person(_AGENT, _m.user_id, type_=Text)
    members = (
        select(_m.user_id, func.coalesce(own.speakers[1], _last_heard(_AGENT, _m.user_id)).label("name"))
        .ext(distinct_on(person))
        .join(group, and_(group.agent_key == _m.agent_key, group.scope_id == _m.scope_id))
        .outerjoin(own, and_(own.agent_key == _m.agent_key, own.owner == "u:" + _m.user_id, own.name == ""))
        .where(
            _m.agent_key == _AGENT,
            group.owner == any_(bindparam("owners", type_=ARRAY(Text))),
            _m.left_at.is_(None),
            person.not_in(select(func.memory.person(_AGENT, other))),
        )
        .order_by(person, _m.user_id)
        .subquery()
    )
    named_first = members.c.name.is_(None), members.c.user_id
    return select(members).order_by(*named_first).limit(bindparam("most", type_=BigInteger))


_person = func.memory.person(_AGENT, _asked.c.user_id, type_=Text)
_MEMBERS_AMONG = _members_among(func.array_agg(_asked.c.user_id.distinct()).label("users"))
_HEARD_BY = _members_among().having(func.count(_person.distinct()) > 1)
_MEMBERS_NAMED = _members_named()
TAKING_FROM = taking_from(bindparam("agent_key", type_=BigInteger), bindparam("user_id", type_=Text))
