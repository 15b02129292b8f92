"""Which server answers a read: the primary, or a replica (`replica.py`).

A position in Postgres's log (WAL), as a number of bytes, says how far a server is. A commit lies before the position that the
primary reports afterwards, so a replica that has replayed up to there shows it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from sqlalchemy import BigInteger, case, cast, func, literal_column, select

from memory_sql.db.engine import Database
from memory_sql.db.principals import Principal
from memory_sql.db.waiting import Joinable

T = TypeVar("T")
Step = Callable[[Any], Awaitable[T]]

_START: Any = literal_column("'0/0'")  # of the log


def in_bytes(position: Any) -> Any:
    return cast(func.pg_wal_lsn_diff(position, _START), BigInteger)


# What isn't flushed isn't sent to a replica either. With synchronous_commit=off a commit may not be flushed yet.
_POSITION = select(
    in_bytes(
        case(
            (func.current_setting("synchronous_commit") == "off", func.pg_current_wal_insert_lsn()),
            else_=func.pg_current_wal_flush_lsn(),
        )
    ).label("position")
)


async def current_position(primary: Database) -> int:
    """Everything committed by now lies before it."""
    async with primary.reading() as reader:
        (row,) = await reader.execute(_POSITION, {})
    position: int = row.position
    return position


class Primary:
    """Reads go to the primary, which knows everything that was committed."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def read(
        self,
        step: Step[T],
        session: Joinable | None = None,
        principal: Principal | None = None,
        after: int | None = None,
    ) -> T:
        """What `step` returns for a reader (`Database.reading`), with everything that was committed before `after`.

        `step` may run twice, on another server the second time. With a session it runs in the host's transaction.
        """
        async with self.database.reading(session, principal) as reader:
            return await step(reader)

    async def reached(self) -> None:
        """Returns when reads see what was committed by now, those of other processes as well."""

    async def close(self) -> None:
        """Does nothing: the connections belong to who opened them."""
