"""A table of another program, of ids and JSON, in any database of Postgres: read in pages, by id. Nothing is written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from sqlalchemy import Select, Text, Uuid, cast, column, func, select, table

from memory_sql.db.engine import SERVER_SETTINGS, engine_to
from memory_sql.db.failures import RAISED, code_of
from memory_sql.db.urls import asyncpg_url
from memory_sql.errors import MemorySQLError, SourceError

AT_ONCE = 1000
_SETTINGS = {"application_name": "memory_sql import", "timezone": SERVER_SETTINGS["timezone"]}
_WRONG = {
    "42P01": "there is no such table",
    "42703": "the table has no columns id and payload",
    "42883": "its ids aren't UUIDs",
    "42501": "the user of the URL may not read it",
}


class OtherStore:
    """`name`: of a table in the search path of the user. Call `close`. Raises `ConfigurationError` for an unusable URL."""

    def __init__(self, url: str, name: str, *, at_once: int = AT_ONCE) -> None:
        self._engine = engine_to(asyncpg_url(url), _SETTINGS, pool_size=1, max_overflow=0).execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        self._name, self._at_once = name, at_once
        self._id: Any = column("id", Uuid(as_uuid=False))
        self._rows = table(name, self._id, column("payload"))

    async def close(self) -> None:
        await self._engine.dispose()

    async def count(self) -> int:
        """Raises `SourceError`."""
        return int((await self._all(select(func.count()).select_from(self._rows)))[0][0])

    async def pages(self) -> AsyncIterator[list[tuple[str, str | None]]]:
        """Ids and payloads, as texts, ordered by id. Raises `SourceError`."""
        payload = cast(self._rows.c.payload, Text)
        of = select(self._id, payload).select_from(self._rows).order_by(self._id).limit(self._at_once)
        rows = await self._all(of)
        while rows:
            yield [(str(key), text) for key, text in rows]
            rows = await self._all(of.where(self._id > rows[-1][0]))

    async def _all(self, statement: Select[Any]) -> list[Any]:
        try:
            async with self._engine.connect() as connection:
                return list((await connection.execute(statement)).all())
        except RAISED as error:
            code = code_of(getattr(error, "orig", None)) or code_of(error)
            raise SourceError(self._name, 0, _WRONG.get(code or "", f"the database gave no answer ({code})")) from error
        except MemorySQLError as error:
            raise SourceError(self._name, 0, str(error)) from error
