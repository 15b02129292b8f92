"""A worker for each shard, in one process: what one of them waits for stops no other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from memory_sql.errors import MemorySQLError, ShardError
from memory_sql.jobs.outage import Outage
from memory_sql.shards.moving import settle_all
from memory_sql.shards.spread import Inner, Shard, Spread

log = logging.getLogger("memory_sql.worker")

OPENING = "opening"
SETTLE_SECONDS = 15.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 10.0  # between attempts to open a shard

Make = Callable[[str, Inner], Any]  # a worker of a shard, by its name and its memory


async def work_in_each(spread: Spread, make: Make, stop: asyncio.Event) -> None:
    """Until `stop` is set. What ends one of them, as `SchemaError` does, ends all, and is raised."""
    working = [asyncio.create_task(_work_in(spread, shard, make, stop)) for shard in spread.shards.values()]
    settling = asyncio.create_task(_settle_on(spread))
    try:
        await asyncio.gather(*working)
    finally:
        working.append(settling)
        for one in working:
            one.cancel()
        await asyncio.wait(working)


async def _settle_on(spread: Spread) -> None:
    """Ends the moves of agents that were killed."""
    told = set[str]()
    while True:
        await asyncio.sleep(SETTLE_SECONDS)
        try:
            await settle_all(spread, told)
        except MemorySQLError as error:
            log.info("moves of agents weren't looked at: %s", error)


async def _work_in(spread: Spread, shard: Shard, make: Make, stop: asyncio.Event) -> None:
    memory = await _opened(spread, shard, stop)
    if memory is not None:
        await make(shard.name, memory).run(stop)


async def _opened(spread: Spread, shard: Shard, stop: asyncio.Event) -> Inner | None:
    """None: it was stopped before the database answered."""
    outage, pause = Outage(log, f"shard {shard.name}: the database is back"), FIRST_PAUSE_SECONDS
    while not stop.is_set():
        try:
            memory = await spread.memory_of(shard)
        except ShardError as error:
            outage.began(OPENING, str(error))
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await stop.wait()
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
            continue
        outage.ended(OPENING)
        return memory
    return None


async def work_once_in_each(spread: Spread, make: Make, stop: asyncio.Event) -> None:
    """One shard after another. Raises `ShardError`, naming those that can't be reached, when the others are done."""
    away: dict[str, str] = {}
    for shard in spread.shards.values():
        try:
            await spread.in_shard(shard, partial(_work_once, make, shard.name, stop))
        except ShardError as error:
            away |= error.shards
    if away:
        raise ShardError(away)


async def _work_once(make: Make, name: str, stop: asyncio.Event, memory: Inner) -> None:
    await make(name, memory).run_once(stop)
