"""Whose ids stand for whom, and what must not be forgotten: aliases and legal holds."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import AgentRow, EventRow, HoldRow, ObservationRow, UserAliasRow
from memory_sql.domain.people import Alias, Hold, HoldKind
from memory_sql.errors import InputError

_ALIAS = (UserAliasRow.user_id, UserAliasRow.into_user_id, UserAliasRow.created_at, UserAliasRow.ended_at)
_HOLD = (
    HoldRow.hold_id,
    HoldRow.kind,
    HoldRow.target,
    HoldRow.actor,
    HoldRow.reason,
    HoldRow.created_at,
    HoldRow.released_at,
)


async def share_agent(session: AsyncSession, agent_key: int) -> None:
    """Until the transaction ends nobody is taken for somebody else; others may share it."""
    await session.execute(select(AgentRow.agent_key).where(AgentRow.agent_key == agent_key).with_for_update(read=True))


async def lock_agent(session: AsyncSession, agent_key: int) -> None:
    """Changes of who is who wait for one another until the transaction ends; nothing else waits.

    By an update, not a lock alone: it also refuses whoever reads an older snapshot than the change before.
    """
    await session.execute(update(AgentRow).where(AgentRow.agent_key == agent_key).values(settings=AgentRow.settings))


async def record(session: AsyncSession, agent_key: int, kind: str, now: datetime, **values: Any) -> None:
    """`values`: actor, reason, detail and what the event is about."""
    await session.execute(insert(EventRow).values(agent_key=agent_key, kind=kind, created_at=now, **values))


def user_ids(agent_key: Any, user_id: Any) -> Any:
    """`memory.user_ids` as a FROM clause."""
    return func.memory.user_ids(agent_key, user_id).table_valued("user_id", name="ids")


class AliasRepository:
    """The caller has locked the agent for what writes."""

    def __init__(self, session: AsyncSession, agent_key: int) -> None:
        self._session = session
        self._agent_key = agent_key

    async def user_ids(self, user_id: str) -> list[str]:
        """The user's own id and those that stand for it, in order."""
        ids = user_ids(self._agent_key, user_id)
        return list(await self._session.scalars(select(ids.c.user_id).order_by(ids.c.user_id)))

    async def into(self, user_id: str) -> list[Alias]:
        """The open aliases that stand for the user, also through others, oldest first."""
        a, ids = UserAliasRow, user_ids(self._agent_key, user_id)
        found = await self._session.execute(
            select(*_ALIAS)
            .where(a.agent_key == self._agent_key, a.ended_at.is_(None), a.into_user_id.in_(select(ids.c.user_id)))
            .order_by(a.created_at, a.user_id)
        )
        return [Alias(**row) for row in found.mappings()]

    async def open(self, user_id: str, into_user_id: str, now: datetime) -> tuple[Alias, bool]:
        """The alias, and whether it is new. Raises `InputError` where it stands for another already, or would circle."""
        existing = await self._standing(user_id)
        if existing is not None:
            if existing.into_user_id == into_user_id:
                return existing, False
            raise InputError(f"user {user_id} stands for user {existing.into_user_id}; unmerge them first")
        if into_user_id in await self.user_ids(user_id):
            raise InputError(f"user {into_user_id} stands for user {user_id}; the other way round would be a circle")
        before = select(func.max(UserAliasRow.ended_at)).where(
            UserAliasRow.agent_key == self._agent_key, UserAliasRow.user_id == user_id
        )
        since = func.greatest(now, before.scalar_subquery() + timedelta(microseconds=1))
        opened = await self._session.execute(
            insert(UserAliasRow)
            .values(agent_key=self._agent_key, user_id=user_id, into_user_id=into_user_id, created_at=since)
            .returning(*_ALIAS)
        )
        return Alias(**opened.mappings().one()), True

    async def _standing(self, user_id: str) -> Alias | None:
        found = await self._session.execute(select(*_ALIAS).where(*self._is_open(user_id)))
        row = found.mappings().one_or_none()
        return None if row is None else Alias(**row)

    async def close(self, user_id: str, now: datetime) -> Alias | None:
        """None: the user stood for nobody."""
        closed = await self._session.execute(
            update(UserAliasRow)
            .where(*self._is_open(user_id))
            .values(ended_at=func.greatest(now, UserAliasRow.created_at))
            .returning(*_ALIAS)
        )
        row = closed.mappings().one_or_none()
        return None if row is None else Alias(**row)

    def _is_open(self, user_id: str) -> tuple[Any, ...]:
        a = UserAliasRow
        return a.agent_key == self._agent_key, a.user_id == user_id, a.ended_at.is_(None)


class HoldRepository:
    """The caller has locked the agent for what writes."""

    def __init__(self, session: AsyncSession, agent_key: int) -> None:
        self._session = session
        self._agent_key = agent_key

    async def has_observation(self, scope_id: int, seq: int) -> bool:
        o = ObservationRow
        found = await self._session.scalar(
            select(o.seq).where(o.agent_key == self._agent_key, o.scope_id == scope_id, o.seq == seq)
        )
        return found is not None

    async def open(
        self, kind: HoldKind, target: str, actor: str | None, reason: str | None, now: datetime
    ) -> tuple[int, bool]:
        """The id of the hold, and whether it is new: what is held already isn't held twice."""
        h = HoldRow
        existing = await self._session.scalar(
            select(h.hold_id).where(
                h.agent_key == self._agent_key, h.kind == kind, h.target == target, h.released_at.is_(None)
            )
        )
        if existing is not None:
            return existing, False
        hold_id = await self._session.scalar(
            insert(h)
            .values(agent_key=self._agent_key, kind=kind, target=target, actor=actor, reason=reason, created_at=now)
            .returning(h.hold_id)
        )
        assert hold_id is not None  # RETURNING of an INSERT that didn't raise
        return hold_id, True

    async def get(self, hold_id: int) -> Hold | None:
        found = await self._session.execute(
            select(*_HOLD).where(HoldRow.agent_key == self._agent_key, HoldRow.hold_id == hold_id)
        )
        row = found.mappings().one_or_none()
        return None if row is None else Hold(**row)

    async def release(self, hold_id: int, now: datetime) -> bool:
        """False: it isn't open."""
        released = await self._session.scalar(
            update(HoldRow)
            .where(HoldRow.agent_key == self._agent_key, HoldRow.hold_id == hold_id, HoldRow.released_at.is_(None))
            .values(released_at=now)
            .returning(HoldRow.hold_id)
        )
        return released is not None

    async def list(self, *, released: bool) -> list[Hold]:
        """The open ones, oldest first; with `released` those that were released as well."""
        statement = select(*_HOLD).where(HoldRow.agent_key == self._agent_key).order_by(HoldRow.hold_id)
        if not released:
            statement = statement.where(HoldRow.released_at.is_(None))
        return [Hold(**row) for row in (await self._session.execute(statement)).mappings()]
