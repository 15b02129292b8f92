"""Which database this is, and how much of the journal it knows; without the mapped tables, since each opening asks."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import cast, func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import LargeBinary


@dataclass(frozen=True, slots=True)
class Place:
    """The ids of this database and its incarnation, and of those of which it is a copy or a restored backup."""

    database: str
    incarnation: str
    ancestors: frozenset[str]

    def may_have_been(self, database: str | None, incarnation: str | None) -> bool:
        """Whether what was done there may concern this one."""
        return database in (None, self.database) and incarnation in (None, self.incarnation, *self.ancestors)


async def placed_here(session: AsyncSession) -> Place:
    of_it = (func.memory.installation_id(), func.memory.incarnation())
    own, incarnation = (await session.execute(select(*of_it))).one()
    found = await session.scalar(select(func.memory.ancestors()))
    return Place(str(own), str(incarnation), frozenset(str(one) for one in found or ()))


async def journal_read(session: AsyncSession) -> tuple[int, bytes]:
    """Up to which byte this database knows what the journal says, and the hash of what stands before it."""
    found = func.memory.journal_read().table_valued("upto", "tail")
    row = (await session.execute(select(found))).one()
    return row.upto, bytes(row.tail)


async def note_journal_read(session: AsyncSession, position: int, tail: bytes) -> None:
    await session.execute(select(func.memory.note_journal_read(position, cast(tail, LargeBinary))))
