"""Legal holds: what must not be erased."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import and_, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import HoldRow, MessageRow, ObservationRow, columns_of
from memory_sql.domain.people import Hold, HoldKind, PlacedHold

_HOLD = columns_of(HoldRow, Hold.model_fields)


@dataclass(frozen=True, slots=True)
class HoldRepository:
    """For methods that write, the caller has locked the agent."""

    _session: AsyncSession
    _agent_key: int

    async def has_observation(self, scope_id: int, seq: int) -> bool:
        o = ObservationRow
        found = await self._session.scalar(
            select(o.seq).where(o.agent_key == self._agent_key, o.scope_id == scope_id, o.seq == seq)
        )
        return found is not None

    async def open(
        self, kind: HoldKind, target: str, actor: str | None, reason: str | None, now: datetime
    ) -> tuple[int, bool]:
        """The id of the hold, and whether it is new: a target isn't held twice."""
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

    async def placed(self, hold_id: int) -> PlacedHold:
        """An open hold, with what it currently keeps."""
        m = MessageRow
        observations = func.memory.held_observations(self._agent_key, hold_id).table_valued("scope_id", "seq")
        messages = func.memory.held_messages(self._agent_key, hold_id).table_valued("conversation_id", "number")
        is_held = and_(m.conversation_id == messages.c.conversation_id, m.number == messages.c.number)
        with_text = (
            select(func.count())
            .select_from(messages)
            .join(m, is_held)
            .where(m.agent_key == self._agent_key, m.content.is_not(None))
        )
        found = await self._session.execute(
            select(
                *_HOLD,
                select(func.count()).select_from(observations).scalar_subquery().label("observations"),
                with_text.scalar_subquery().label("messages"),
            ).where(HoldRow.agent_key == self._agent_key, HoldRow.hold_id == hold_id)
        )
        return PlacedHold(**found.mappings().one())

    async def release(self, hold_id: int, now: datetime) -> bool:
        """Returns False if the hold isn't open."""
        released = await self._session.scalar(
            update(HoldRow)
            .where(HoldRow.agent_key == self._agent_key, HoldRow.hold_id == hold_id, HoldRow.released_at.is_(None))
            .values(released_at=now)
            .returning(HoldRow.hold_id)
        )
        return released is not None

    async def list(self, *, released: bool) -> list[Hold]:
        """The open holds, oldest first; with `released`, the released ones too."""
        statement = select(*_HOLD).where(HoldRow.agent_key == self._agent_key).order_by(HoldRow.hold_id)
        if not released:
            statement = statement.where(HoldRow.released_at.is_(None))
        return [Hold(**row) for row in (await self._session.execute(statement)).mappings()]

    async def count_open(self) -> int:
        found = await self._session.scalar(
            select(func.count())
            .select_from(HoldRow)
            .where(HoldRow.agent_key == self._agent_key, HoldRow.released_at.is_(None))
        )
        return found or 0
