"""Where each agent is: the map in the home, kept in this process for as long as its version stays."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from memory_sql.db import Database
from memory_sql.db.principals import SERVICE
from memory_sql.db.repositories import shards
from memory_sql.errors import DatabaseError

LOOK_SECONDS = 10.0  # how often the version is read: so long may an agent that has moved be looked for where it was
MOST_KEPT = 100_000  # agents


class Places:
    """`home`: the database with the map. `found`: told the shard whenever the map says where an agent is."""

    def __init__(self, home: Database, now: Callable[[], datetime], found: Callable[[str], None]) -> None:
        self._home = home
        self._now = now
        self._found = found
        self._kept: dict[str, str] = {}
        self._version: int | None = None
        self._looked_at = -LOOK_SECONDS
        self._looking = asyncio.Lock()

    async def find(self, agent_id: str) -> str | None:
        """The shard by the map; None: the map doesn't know the agent. Where one is that moves is asked each time."""
        if time.monotonic() >= self._looked_at + LOOK_SECONDS:
            await self._look()
        known = self._kept.get(agent_id)
        if known is not None:
            return known
        version = self._version
        async with self._home.statement(principal=SERVICE) as unit:
            found = await shards.placed(unit, agent_id)
        if found is None:
            return None
        self._found(found.shard)
        if found.moving_to is None and self._version == version:
            self._keep(agent_id, found.shard)
        return found.shard

    def forget(self, agent_id: str) -> None:
        """It isn't where it was, or is about not to be."""
        self._kept.pop(agent_id, None)

    async def place(self, agent_id: str, shard: str | None) -> str:
        """Where it is from now on: there, where others have placed it meanwhile, or (None) where the fewest agents are."""
        step = partial(shards.place, agent_id=agent_id, shard=shard, now=self._now())
        placed = await self._home.write(step, principal=SERVICE)
        self._found(placed)
        self._keep(agent_id, placed)
        return placed

    async def shards(self) -> Sequence[str]:
        """The names in the map, the home first."""
        async with self._home.statement(principal=SERVICE) as unit:
            return await shards.list_shards(unit)

    def _keep(self, agent_id: str, shard: str) -> None:
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[agent_id] = shard

    async def _look(self) -> None:
        """Forgets what was kept if an agent has moved. While the home is away none can move, so what is kept stays right."""
        async with self._looking:
            if time.monotonic() < self._looked_at + LOOK_SECONDS:
                return
            try:
                async with self._home.statement(principal=SERVICE) as unit:
                    version = await shards.map_version(unit)
            except DatabaseError:
                if self._version is None:
                    raise
                version = self._version
            if version != self._version:
                self._kept.clear()
            self._version, self._looked_at = version, time.monotonic()
