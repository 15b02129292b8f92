"""Groups and their members: one row per period of membership. Written under the agent's and the group's row locks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Select, and_, any_, bindparam, exists, func, or_, select, true, update
from sqlalchemy.dialects.postgresql import array, distinct_on
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased
from sqlalchemy.types import ARRAY, Text

from memory_sql.config.kinds import Sharing
from memory_sql.db.direct import ask
from memory_sql.db.models import ConversationRow, MemberRow, MessageRow, PromptRow, ScopeRow
from memory_sql.db.participants import took_part
from memory_sql.db.repositories.aliases import user_ids
from memory_sql.domain.groups import Group, Member, MemberSource
from memory_sql.domain.ids import owner_key

_m, _s = MemberRow, ScopeRow
_GROUP_ID = func.substr(_s.owner, 3).label("group_id")
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
