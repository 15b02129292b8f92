"""The users of an agent, page by page. They are the same as in `v_users`; a test compares the two."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    DateTime,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    cast,
    func,
    literal_column,  # as in the condition of an index: a plan for any parameter can't use it
    null,
    select,
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
    written = select(user.label("user_id"), *counts, cast(0, BigInteger).label("groups"))
    return written.where(_c.agent_key == _key, user > _after).group_by(user)


def _owns() -> Select[Any]:
    """The users with observations, not all withdrawn, in a scope of their own."""
    user = func.substr(_s.owner, 3)
    # Not EXISTS, which becomes a join that reads every observation of the agent.
    left = select(_o.seq).where(*_of_scope(), _o.standing != "withdrawn").limit(1).correlate(_s).scalar_subquery()
    return _without_conversations(user, cast(0, BigInteger)).where(
        _s.agent_key == _key, _s.kind == "individual", user > _after, left.is_not(None)
    )


def _belongs() -> Select[Any]:
    groups = func.count().filter(_m.left_at.is_(None))
    found = _without_conversations(_m.user_id, groups).where(_m.agent_key == _key, _m.user_id > _after)
    return found.group_by(_m.user_id)


def _without_conversations(user: Any, groups: Any) -> Select[Any]:
    return select(user, cast(0, BigInteger), cast(null(), DateTime(timezone=True)), groups)


def _of_scope() -> tuple[Any, ...]:
    return _o.agent_key == _s.agent_key, _o.scope_id == _s.scope_id


_known = union_all(_wrote(), _owns(), _belongs()).subquery("known")
_page = (
    select(
        _known.c.user_id,
        func.sum(_known.c.conversations).cast(BigInteger).label("conversations"),
        func.max(_known.c.last_active_at).label("last_active_at"),
        func.sum(_known.c.groups).cast(BigInteger).label("groups"),
    )
    .group_by(_known.c.user_id)
    .order_by(_known.c.user_id)
    .limit(bindparam("limit", type_=Integer))
    .cte("page")
)
_observations = (
    select(func.count())
    .select_from(_s)
    .join(_o, and_(*_of_scope()))
    .where(_s.agent_key == _key, _s.owner == "u:" + _page.c.user_id, _o.standing == literal_column("'active'"))
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
