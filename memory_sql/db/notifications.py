"""Hearing at once when something becomes due, on a connection of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from asyncpg import InterfaceError, PostgresError  # type: ignore[import-untyped]

from memory_sql.db.engine import Database
from memory_sql.db.failures import named_errors
from memory_sql.db.naming import channel
from memory_sql.errors import DatabaseError

_PULSE_SECONDS = 60.0  # detects a connection that died silently, and keeps an idle one from being cut
_ANSWER_SECONDS = 10.0


async def listen(database: Database, heard: Callable[[], None]) -> None:
    """Calls `heard` once it listens and at each notification; returns when the connection is lost.

    Raises `DatabaseError` if no connection can be had. Notifications are hints: they are lost with a connection.
    """
    try:
        with named_errors():
            async with database.listening() as driver:
                await _listen(driver, channel(database.schema), heard)
    except (PostgresError, InterfaceError, TimeoutError) as error:
        raise DatabaseError(f"listening failed: {type(error).__name__}") from error


async def _listen(driver: Any, due: str, heard: Callable[[], None]) -> None:
    """Uses asyncpg's own connection, since SQLAlchemy would begin a transaction with the first statement."""
    lost = asyncio.Event()
    driver.add_termination_listener(lambda _: lost.set())
    await driver.add_listener(due, lambda *_: heard())
    heard()  # for what became due before
    while not lost.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(_PULSE_SECONDS):
                await lost.wait()
                return
        await driver.execute("SELECT 1", timeout=_ANSWER_SECONDS)
