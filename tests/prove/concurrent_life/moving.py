"""The same life over two shards: agents move from one to the other and back while everything goes on."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from contextlib import suppress

from sqlalchemy import make_url, text

from memory_sql.config.shards import as_text
from memory_sql.db.joining import join
from memory_sql.db.moving import TABLES
from memory_sql.db.principals import SERVICE
from memory_sql.errors import BusyError, DatabaseError, NotFoundError
from memory_sql.memory import Memory
from memory_sql.shards import moving, places
from tests.prove.concurrent_life.backups import administering
from tests.prove.concurrent_life.world import AGENTS, World

HOME, OTHER = "a", "b"
NOT_OVER_SHARDS = ("import_new", "import_again", "import_dry", "rollback", "verify_imports")  # which are refused
PATIENCE_SECONDS = 120.0


def hurry() -> None:
    """For this process and those that are forked from it: a move that waits half a minute meets too little."""
    places.LOOK_SECONDS, moving.LATE_SECONDS, moving.PAUSE_SECONDS = 0.5, 2.0, 0.1


def two_shards(url: str) -> dict[str, str]:
    """The database, which has its schema and nothing else, is the home of another on the same server."""
    name = make_url(url).database or ""
    other = f"{name}_b"

    async def make() -> dict[str, str]:
        async with administering(url) as connection:
            await connection.execute(f'CREATE DATABASE "{other}" TEMPLATE "{name}"')
        urls = {HOME: url, OTHER: make_url(url).set(database=other).render_as_string(hide_password=False)}
        await join(urls)
        return urls

    return asyncio.run(make())


def environment(urls: Mapping[str, str]) -> dict[str, str]:
    return {"MEMORY_SQL_SHARDS": str(as_text(urls))}


async def move_about(memory: Memory, world: World, chance: random.Random, stop: asyncio.Event) -> None:
    """Until that is set, and the last move has ended; some are given up halfway."""
    while not stop.is_set():
        await asyncio.sleep(chance.uniform(0, 1))
        agent, to = chance.choice(sorted(set(AGENTS))), chance.choice((HOME, OTHER))
        gives_up, crashes = chance.randrange(3) == 0, world.crashes
        try:
            async with asyncio.timeout(chance.uniform(0, 6) if gives_up else None):
                done = await memory.admin.move(agent_id=agent, to=to)
            world.did["moves"] += done.source != done.target
        except TimeoutError:
            world.did["moves given up"] += 1
        except (NotFoundError, BusyError):
            continue
        except DatabaseError as error:
            if not world.excuses(error, crashes):
                world.found(f"a move of {agent} to {to} ended in {type(error).__name__}: {error}")


async def gather_home(memory: Memory, world: World) -> None:
    """All agents are in the home, whose tables are then looked at, and nothing is left in the other."""
    for agent in sorted(set(AGENTS)):
        with suppress(NotFoundError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    try:
                        await memory.admin.move(agent_id=agent, to=HOME)
                        break
                    except (BusyError, DatabaseError) as error:
                        last = error
                    await asyncio.sleep(0.5)
                    world.did[f"tried again: {type(last).__name__}"] += 1
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        if not await _left(memory):
            return
        await asyncio.sleep(0.5)  # where a move was given up last, rows stay for a while, and then workers clear them
    for line in await _left(memory):
        world.found(f"left where it moved away from: {line}")


async def _left(memory: Memory) -> list[str]:
    found = []
    async with memory._spread.shards[OTHER].memory.database.transaction(principal=SERVICE) as unit:
        for table in TABLES:
            if count := await unit.scalar(text(f"SELECT count(*) FROM memory.{table.name}")):  # noqa: S608 — ours
                found.append(f"{count} rows of {table.name}")
    return found
