"""Which engine an agent has: asked for now and then, and known while the database can't be asked."""

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
    """What is known holds for `seconds`; to ask for it takes `patience_seconds` at most.

    Where that fails the engine of before counts, and of an agent never asked for that of the settings of the process: the
    host's own memory doesn't depend on this database.
    """

    def __init__(self, memory: Memory, *, seconds: float, patience_seconds: float) -> None:
        self._memory = memory
        self._seconds = seconds
        self._patience = patience_seconds
        self._known: dict[str, _Known] = {}

    async def of(self, agent_id: str) -> Engine:
        known = self._known.get(agent_id)
        now = asyncio.get_running_loop().time()
        if known is not None and now < known.until:
            return known.engine
        engine = await self._asked(agent_id, self._memory.settings.engine if known is None else known.engine)
        self._known[agent_id] = _Known(engine, now + self._seconds)
        return engine

    async def _asked(self, agent_id: str, otherwise: Engine) -> Engine:
        try:
            async with asyncio.timeout(self._patience):
                own = await self._memory.admin.settings(agent_id=agent_id)
        except (MemorySQLError, TimeoutError) as error:
            log.warning("the engine of agent %s can't be read (%s): %s", agent_id, type(error).__name__, otherwise)
            return otherwise
        return self._memory.settings.of_agent(own).engine
