"""The users of an agent, page by page. They are the same as in `v_users`; a test compares the two."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    DateTime,
    Integer,
    Select,
    Text,
    bindparam,
    cast,
    false,
    func,
    literal_column,  # as in the condition of an index: a plan for any parameter can't use it
    null,
    or_,
    select,
    true,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import AgentRow, ConversationRow, MemberRow, ObservationRow, ScopeRow, UserAliasRow
from memory_sql.domain.people import UserSummary

_c, _s, _o, _m, _a = ConversationRow, ScopeRow, ObservationRow, MemberRow, UserAliasRow
_key = select(AgentRow.agent_key).where(AgentRow.agent_id == bindparam("agent_id", type_=Text)).scalar_subquery()
_after = func.coalesce(bindparam("after", type_=Text), "")


async def list_users(session: AsyncSession, agent_id: str, after: str | None, limit: int) -> list[UserSummary]:
    """In the order of their ids, after `after`; none for an unknown agent.

    One statement, which reads the agent's conversations, scopes and members, and the observations of those on the page.
    """
    found = await session.execute(_LIST, {"agent_id": agent_id, "after": after, "limit": limit})
    return [UserSummary(**row) for row in found.mappings()]


def _wrote() -> Select[Any]:
    user = func.unnest(_c.participants).column_valued("writer", joins_implicitly=True)
    counts = (func.count().label("conversations"), func.max(_c.last_activity_at).label("last_active_at"))
    written = select(user.label("user_id"), true().label("is_known"), *counts, cast(0, BigInteger).label("groups"))
    return written.where(_c.agent_key == _key, user > _after).group_by(user)


def _owns() -> Select[Any]:
    """Who has a scope of their own. It may be empty by now."""
    user = func.substr(_s.owner, 3)
    return _without_conversations(user, false(), cast(0, BigInteger)).where(
        _s.agent_key == _key, _s.kind == "individual", user > _after
    )


def _belongs() -> Select[Any]:
    groups = func.count().filter(_m.left_at.is_(None))
    found = _without_conversations(_m.user_id, true(), groups).where(_m.agent_key == _key, _m.user_id > _after)
    return found.group_by(_m.user_id)


def _without_conversations(user: Any, is_known: Any, groups: Any) -> Select[Any]:
    return select(user, is_known, cast(0, BigInteger), cast(null(), DateTime(timezone=True)), groups)


def _owned(user: Any) -> tuple[Any, ...]:
    return _s.agent_key == _key, _s.owner == "u:" + user


_of_scope = (_o.agent_key == _s.agent_key, _o.scope_id == _s.scope_id)
_known = union_all(_wrote(), _owns(), _belongs()).subquery("known")
# In order, and with OFFSET, so that what is left in the scopes is looked up of those on the page alone.
_users = (
    select(
        _known.c.user_id,
        func.bool_or(_known.c.is_known).label("is_known"),
        func.sum(_known.c.conversations).cast(BigInteger).label("conversations"),
        func.max(_known.c.last_active_at).label("last_active_at"),
        func.sum(_known.c.groups).cast(BigInteger).label("groups"),
    )
    .group_by(_known.c.user_id)
    .order_by(_known.c.user_id)
    .offset(0)
    .subquery("users")
)
_left = select(_o.seq).where(*_of_scope, _o.standing != "withdrawn").order_by(_o.seq).limit(1)  # by the index
_owns_something = select(_s.scope_id).where(*_owned(_users.c.user_id), _left.scalar_subquery().is_not(None)).limit(1)
_page = (
    select(_users.c.user_id, _users.c.conversations, _users.c.last_active_at, _users.c.groups)
    .where(or_(_users.c.is_known, _owns_something.scalar_subquery().is_not(None)))
    .order_by(_users.c.user_id)
    .limit(bindparam("limit", type_=Integer))
    .cte("page")
)
_observations = (
    select(func.count())
    .where(*_owned(_page.c.user_id), *_of_scope, _o.standing == literal_column("'active'"))
    .correlate(_page)
    .scalar_subquery()
)
_stands_for = (
    select(_a.into_user_id)
    .where(_a.agent_key == _key, _a.user_id == _page.c.user_id, _a.ended_at.is_(None))
    .correlate(_page)
    .scalar_subquery()
)
_LIST = select(*_page.c, _observations.label("observations"), _stands_for.label("stands_for")).order_by(_page.c.user_id)
