"""Whether the session that a host passes is of our database: asked once of each engine."""

from __future__ import annotations

from weakref import WeakSet

from sqlalchemy import URL, Dialect, func, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession

from memory_sql.db.naming import of_schema
from memory_sql.errors import InputError

PLACE = "memory_sql.place"  # in `Session.info`: where a connection leads that has no engine of its own

_THERE = select(func.current_database(), func.to_regprocedure(of_schema("incarnation()")).is_not(None))
_INCARNATION = select(func.memory.incarnation())


class Identity:
    """A database goes by its incarnation: another URL, a pooler or a standby has the same, a copy another.

    `incarnation` None: nobody has asked ours, and any session is taken. An engine is known by its dialect, which its views
    and its pool share, however often it is disposed of. A connection without one is known by its place.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self.incarnation: str | None = None
        self._url = engine.url
        self._known = WeakSet[Dialect]([engine.dialect])
        self._places = set[str]()

    async def check(self, session: AsyncSession) -> None:
        """Raises `InputError`, naming both, for a session of another database. Nothing of ours was written in it."""
        if self.incarnation is None:
            return
        connection = await session.connection()
        place = session.info.get(PLACE)
        if place in self._places if place else connection.dialect in self._known:
            return
        name, is_there = (await connection.execute(_THERE)).one()
        if not is_there or str(await connection.scalar(_INCARNATION)) != self.incarnation:
            raise InputError(
                f"session= is of the database {_named(_url_of(connection), name)}, and this Memory of {_named(self._url)};"
                " nothing was written; open a Memory on the database of your transaction"
            )
        if place:
            self._places.add(place)
        else:
            self._known.add(connection.dialect)


def _url_of(connection: AsyncConnection) -> URL:
    return connection.engine.url


def _named(url: URL, name: str | None = None) -> str:
    """Without user and password. `name`: what the server calls it."""
    place = f" at {url.host}:{url.port or 5432}" if url.host else ""
    return f"{name or url.database}{place}"
