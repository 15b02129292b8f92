"""What happens once a transaction has been committed, whoever commits it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, event
from sqlalchemy.ext.asyncio import AsyncSession

# A key of `Session.info`: calls something after the commit of a host that blocks; None: nothing tells of it.
ON_COMMIT = "memory_sql.on_commit"


class _Watched:
    """The driver's transaction: whoever commits it, a session, a connection or an engine, ends with this."""

    def __init__(self, transaction: Any) -> None:
        self._transaction = transaction
        self.waiting: list[tuple[Callable[[], None], frozenset[str]]] = []

    async def commit(self) -> None:
        await self._transaction.commit()
        for call, _ in self.waiting:
            call()

    async def rollback(self) -> None:
        await self._transaction.rollback()

    def forget(self, savepoint: str) -> None:
        self.waiting = [one for one in self.waiting if savepoint not in one[1]]


_watched: WeakKeyDictionary[Connection, _Watched] = WeakKeyDictionary()


def on_commit(session: AsyncSession, call: Callable[[], None]) -> None:
    """Calls `call` once, after the database transaction was committed in which this session works; not if it is rolled back.

    That may be another's, which the session has joined: then its own commit says nothing. Nor is it called if anybody rolls
    back to an earlier savepoint. The session has sent something in that transaction, and `tells_commit`.
    """
    if ON_COMMIT in session.info:
        session.info[ON_COMMIT](call)
        return
    connection = session.sync_session.connection()
    driver: Any = connection.connection.dbapi_connection
    watched = driver._transaction
    if not isinstance(watched, _Watched):
        if connection not in _watched:
            event.listen(connection, "rollback_savepoint", _rolled_back)
        watched = driver._transaction = _watched[connection] = _Watched(watched)
    watched.waiting.append((call, frozenset(_savepoints(connection))))


def tells_commit(session: AsyncSession) -> bool:
    """Whether `on_commit` can be used."""
    return session.info.get(ON_COMMIT, on_commit) is not None


def _savepoints(connection: Connection) -> Iterator[str]:
    """The names of the savepoints in which the connection is."""
    nested: Any = connection.get_nested_transaction()
    while nested is not None:
        yield nested._savepoint
        nested = nested._previous_nested


def _rolled_back(connection: Connection, name: str, _context: None) -> None:
    _watched[connection].forget(name)
