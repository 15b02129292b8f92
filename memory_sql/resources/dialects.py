"""How the servers of models take requests, kept in the database for all processes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import cast

from memory_sql.db import Database, Session
from memory_sql.db.principals import service
from memory_sql.db.repositories.dialects import Found, find_dialect, keep_dialect
from memory_sql.llm.dialect import Api, Dialect, Output


class Dialects:
    """As `llm.dialect.Notes`."""

    def __init__(self, database: Callable[[], Database], now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now

    async def find(self, server: str, model: str) -> Dialect | None:
        async with self._database().statement(principal=service(None)) as unit:
            found = await find_dialect(unit, server, model, self._now())
        if found is None:
            return None
        return Dialect(cast(Api, found.api), cast(Output, found.output), frozenset(found.without))

    async def keep(self, server: str, model: str, dialect: Dialect) -> None:
        async def kept(unit: Session) -> None:
            await keep_dialect(unit, server, model, Found(*dialect), self._now())

        await self._database().write(kept, principal=service(None))
