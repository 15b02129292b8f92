"""The engine of each agent: read from the database now and then, and remembered while the database can't be reached."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from memory_sql.config.kinds import Engine
from memory_sql.errors import MemorySQLError
from memory_sql.memory import Memory

log = logging.getLogger("memory_sql")


@dataclass(frozen=True, slots=True)
class _Known:
    engine: Engine
    until: float


class Engines:
    """Remembers an engine for `seconds`. Reading it takes at most `patience_seconds`.

    If that fails, the last known engine counts, or that of the process's settings for an agent whose engine was never
    read: the host's own memory doesn't depend on this database. Until the database answers again, no call waits for it.
    """

    def __init__(self, memory: Memory, *, seconds: float, patience_seconds: float) -> None:
        self._memory = memory
        self._seconds = seconds
        self._patience = patience_seconds
        self._known: dict[str, _Known] = {}
        self._is_down = False
        self._asking: asyncio.Task[Engine] | None = None

    async def of(self, agent_id: str) -> Engine:
        known = self._known.get(agent_id)
        if known is not None and asyncio.get_running_loop().time() < known.until:
            return known.engine
        otherwise = self._memory.settings.engine if known is None else known.engine
        if not self._is_down:
            return await self._ask(agent_id, otherwise)
        if self._asking is None or self._asking.done():
            self._asking = asyncio.get_running_loop().create_task(self._ask(agent_id, otherwise))
        return otherwise

    async def _ask(self, agent_id: str, otherwise: Engine) -> Engine:
        engine = otherwise
        try:
            async with asyncio.timeout(self._patience):
                own = await self._memory.admin.settings(agent_id=agent_id)
            engine, self._is_down = self._memory.settings.of_agent(own).engine, False
        except (MemorySQLError, TimeoutError) as error:
            log.warning("the engine of agent %s can't be read (%s): %s", agent_id, type(error).__name__, otherwise)
            self._is_down = True
        self._known[agent_id] = _Known(engine, asyncio.get_running_loop().time() + self._seconds)
        return engine

    async def settle(self) -> None:
        """Waits for the query that runs in the background."""
        if self._asking is not None:
            await asyncio.wait([self._asking])
