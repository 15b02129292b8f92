"""Which ids stand for which users: one row per period in which an id did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import HoldRow, UserAliasRow, columns_of
from memory_sql.domain.people import Alias
from memory_sql.errors import InputError

_ALIAS = columns_of(UserAliasRow, Alias.model_fields)


def user_ids(agent_key: Any, user_id: Any) -> Any:
    """`memory.user_ids` as a FROM clause."""
    return func.memory.user_ids(agent_key, user_id).table_valued("user_id", name="ids")


@dataclass(frozen=True, slots=True)
class AliasRepository:
    """For methods that write, the caller has locked the agent."""

    _session: AsyncSession
    _agent_key: int

    async def user_ids(self, user_id: str) -> list[str]:
        """The user's own id and those that stand for it, in order."""
        ids = user_ids(self._agent_key, user_id)
        return list(await self._session.scalars(select(ids.c.user_id).order_by(ids.c.user_id)))

    async def ids_of_person(self, user_id: str) -> list[str]:
        """All ids of the person for whom the user stands, in order."""
        person: str = (await self._session.scalars(select(func.memory.person(self._agent_key, user_id)))).one()
        return await self.user_ids(person)

    async def beyond(self, user_ids: Sequence[str]) -> list[str]:
        """The other ids of the person for whom any of these stands, first the one for whom all of them stand."""
        a = UserAliasRow
        stands = select(a.into_user_id).where(
            a.agent_key == self._agent_key,
            a.ended_at.is_(None),
            a.user_id.in_(user_ids),
            a.into_user_id.not_in(user_ids),
        )
        into = (await self._session.scalars(stands)).first()
        if into is None:
            return []
        person: str = (await self._session.scalars(select(func.memory.person(self._agent_key, into)))).one()
        others = [user for user in await self.user_ids(person) if user not in (*user_ids, person)]
        return [person, *others]

    async def into(self, user_id: str) -> list[Alias]:
        """The open aliases that stand for the user, directly or through others, oldest first."""
        a, ids = UserAliasRow, user_ids(self._agent_key, user_id)
        found = await self._session.execute(
            select(*_ALIAS)
            .where(a.agent_key == self._agent_key, a.ended_at.is_(None), a.into_user_id.in_(select(ids.c.user_id)))
            .order_by(a.created_at, a.user_id)
        )
        return [Alias(**row) for row in found.mappings()]

    async def open(self, user_id: str, into_user_id: str, now: datetime) -> tuple[Alias, bool]:
        """The alias, and whether it is new. Raises `InputError` if the id already stands for another, or for a cycle."""
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
        """Returns None if the user stood for nobody.

        It ends no earlier than any open hold began, by whatever clock: what one covers stays covered (`memory.held_ids`).
        """
        h = HoldRow
        held = select(func.max(h.created_at)).where(h.agent_key == self._agent_key, h.released_at.is_(None))
        ended = func.greatest(now, UserAliasRow.created_at, held.scalar_subquery())  # which leaves null out
        closed = await self._session.execute(
            update(UserAliasRow).where(*self._is_open(user_id)).values(ended_at=ended).returning(*_ALIAS)
        )
        row = closed.mappings().one_or_none()
        return None if row is None else Alias(**row)

    def _is_open(self, user_id: str) -> tuple[Any, ...]:
        a = UserAliasRow
        return a.agent_key == self._agent_key, a.user_id == user_id, a.ended_at.is_(None)
